"""One HTML file that needs nothing else: no script, no font, no network."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from rooftune.report.html.view import context
from rooftune.report.result_json import write_whole
from rooftune.store.result import Result

REPORT_FILE = "report.html"
_TEMPLATES = Path(__file__).parent / "templates"
# Controls that HTML cannot hold, and marks that would turn the direction of the text around them.
_UNSHOWABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def render_html(result: Result, configuration_file: str | None = "configuration.yaml") -> str:
    """The whole page. All text of the result is escaped; ``configuration_file`` is named as what to serve with."""
    return _environment().get_template("report.html.j2").render(context(result, configuration_file))


def write_html(result: Result, folder: str | Path, configuration_file: str | None = "configuration.yaml") -> Path:
    """Write ``report.html`` whole or not at all; returns its path."""
    return write_whole(Path(folder) / REPORT_FILE, render_html(result, configuration_file))


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["u"] = _isolated
    return environment


def _isolated(text: object) -> Markup:
    """Text that is not ours: escaped, without controls, and its writing direction kept to itself."""
    return Markup("<bdi>{}</bdi>").format(escape(_UNSHOWABLE.sub("\ufffd", str(text))))
