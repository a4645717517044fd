"""Building SVG: every attribute and text is escaped here, so no chart can forget it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from markupsafe import Markup, escape

# Controls that HTML cannot hold, and marks that would turn the direction of the text around them.
_UNSHOWABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)

Value = str | float | int | None


def element(tag: str, *children: str | Markup, **attributes: Value) -> Markup:
    """One element. ``class_`` becomes ``class``, underscores become hyphens, None leaves the attribute out.

    Children that are plain text are escaped; Markup made here is not escaped again.
    """
    written = "".join(
        f' {_name(key)}="{escape(_text(value))}"' for key, value in attributes.items() if value is not None
    )
    inner = Markup("").join(child if isinstance(child, Markup) else showable(child) for child in children)
    return Markup(f"<{tag}{written}>{inner}</{tag}>")  # noqa: S704


def showable(text: str) -> str:
    """``text`` with a visible mark in place of every character that a page must not hold."""
    return _UNSHOWABLE.sub("\ufffd", text)


def group(children: Iterable[Markup]) -> Markup:
    return Markup("").join(children)


def share(position: float) -> str:
    """A place between 0 and 1 as the percentage that SVG takes without a view box, so text keeps its size."""
    return f"{min(1.0, max(0.0, position)) * 100:.3f}%"


def _name(key: str) -> str:
    return key if key in ("viewBox", "preserveAspectRatio") else key.rstrip("_").replace("_", "-")


def _text(value: Value) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else showable(str(value))
