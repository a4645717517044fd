"""Quantities as users write them: durations, rates, shares, money. Everything inside is in base units."""

from __future__ import annotations

import math
import re
from typing import Literal

Dimension = Literal["time", "rate", "share", "count", "money", "plain"]

_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
}
_NUMBER = re.compile(r"^\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*$")
_UNIT_OF = {
    "time": "a duration such as 400ms or 1.5s",
    "rate": "a rate such as 4/s or 240/min",
    "share": "a share such as 95% or 0.95",
    "count": "a whole number",
    "money": "a plain number (an amount in the price's currency)",
    "plain": "a plain number",
}


def parse_quantity(text: str | float | int, dimension: Dimension) -> float:
    """Read one quantity of the asked dimension, in base units (seconds, per second, 0 to 1).

    Raises ValueError with one line that names what was expected.
    """
    if isinstance(text, bool):
        raise ValueError(f"expected {_UNIT_OF[dimension]}, not {text}")
    if isinstance(text, int | float):
        if dimension in ("time", "rate") and text != 0:
            raise ValueError(f"{text} has no unit: expected {_UNIT_OF[dimension]}")
        value, unit = float(text), ""
    else:
        match = _NUMBER.match(text)
        if match is None:
            raise ValueError(f"'{text}' is not a number with a unit: expected {_UNIT_OF[dimension]}")
        value, unit = float(match.group(1)), match.group(2)
    if not math.isfinite(value):
        raise ValueError(f"'{text}' is not finite")
    scaled = _scale(value, unit, dimension)
    if scaled is None:
        raise ValueError(f"'{text}' has the wrong dimension: expected {_UNIT_OF[dimension]}")
    if dimension == "share" and not 0.0 <= scaled <= 1.0:
        raise ValueError(f"'{text}' is not between 0 and 1 (0% and 100%)")
    if scaled < 0:
        raise ValueError(f"'{text}' is negative")
    return scaled


def _scale(value: float, unit: str, dimension: Dimension) -> float | None:
    """``value`` in base units, or None when the unit does not belong to the dimension."""
    if dimension == "time":
        if value == 0 and unit == "":
            return 0.0
        return value * _SECONDS[unit] if unit in _SECONDS else None
    if dimension == "rate":
        if value == 0 and unit == "":
            return 0.0
        per = unit.removeprefix("/").strip()
        return (
            value / _SECONDS[per] if unit.startswith("/") and per in ("s", "sec", "m", "min", "h") else None
        )
    if dimension == "share":
        return value / 100.0 if unit == "%" else value if unit == "" else None
    return value if unit == "" else None


def format_quantity(value: float, dimension: Dimension) -> str:
    """A short form for people: 412 ms, 3.2 s, 95.0 %, 4.1/s."""
    if dimension == "time":
        if value < 1e-3:
            return f"{value * 1e6:.0f} µs"
        if value < 0.9995:
            return f"{value * 1e3:.3g} ms"
        return f"{value:.3g} s" if value < 120 else f"{value / 60:.3g} min"
    if dimension == "share":
        return f"{value * 100:.1f} %"
    if dimension == "rate":
        return f"{value:.3g}/s"
    return f"{value:.4g}"
