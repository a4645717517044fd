"""All forms of a result in one folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rooftune.report.exported import CONFIGURATION_FILE, export_configuration
from rooftune.report.html.page import REPORT_FILE, write_html
from rooftune.report.markdown import to_markdown
from rooftune.report.result_json import write_result, write_whole
from rooftune.store.result import Result

MARKDOWN_FILE = "report.md"


def write_reports(result: Result, folder: str | Path) -> Result:
    """Write result.json, report.html, report.md and configuration.yaml, each whole or not at all.

    Returns the result with ``report`` set to the page's path. result.json comes last: where it is, all are there.
    Raises EnvironmentProblem where the folder cannot be written.
    """
    place = Path(folder)
    written = replace(result, report=str(place / REPORT_FILE))
    write_whole(place / CONFIGURATION_FILE, export_configuration(written))
    write_whole(place / MARKDOWN_FILE, to_markdown(written))
    write_html(written, place, CONFIGURATION_FILE)
    write_result(written, place)
    return written
