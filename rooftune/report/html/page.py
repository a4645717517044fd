"""One HTML file that needs nothing else: no script, no font, no network."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from rooftune.report.html.svg import showable
from rooftune.report.html.view import context
from rooftune.report.result_json import write_whole
from rooftune.store.result import Result

REPORT_FILE = "report.html"
_TEMPLATES = Path(__file__).parent / "templates"
_UNIT = re.compile(
    r"(?<=[0-9]) (?=(?:%|×|ns|µs|ms|s|min|h|[kMGTP]?i?B(?:/s)?|[MGTP]?(?:FL)?OP/s)(?![A-Za-z0-9]))|(?<=[≤≥×]) (?=[0-9])"
    r"|(?:(?<=TTFT)|(?<=TPOT)|(?<=ITL)|(?<=E2E)) (?=p[0-9]|mean)"
)
_CODE = re.compile("`([^`]{1,200})`")


def render_html(result: Result, configuration_file: str | None = "configuration.yaml") -> str:
    """The whole page. All text of the result is escaped; ``configuration_file`` is named as what to serve with."""
    return _environment().get_template("report.html.j2").render(context(result, configuration_file))


def write_html(
    result: Result, folder: str | Path, configuration_file: str | None = "configuration.yaml"
) -> Path:
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
        finalize=_kept_together,
    )
    environment.filters["u"] = _isolated
    return environment


def _kept_together(value: object) -> object:
    """Every text that a template prints: only what can be shown, no line break between a number and its unit."""
    return (
        _UNIT.sub("\u00a0", showable(value))
        if isinstance(value, str) and not isinstance(value, Markup)
        else value
    )


def _isolated(text: object) -> Markup:
    """Text that is not ours: escaped, without controls, and its writing direction kept to itself; `so` is code."""
    safe = str(escape(_UNIT.sub("\u00a0", showable(str(text)))))
    return Markup("<bdi>" + _CODE.sub(r"<code>\1</code>", safe) + "</bdi>")  # noqa: S704
