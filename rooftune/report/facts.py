"""Free-form parts of a result (environment, plan, noise, ...) as lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooftune.report import labels, words

_MOST = 80
_NAMES = {"aa": "same configuration twice (A/A)", "isa": "instruction set", "cv": "spread"}
_SHARES = frozenset({"minimum_detectable_effect", "assumed_spread", "spread", "baseline_spread", "share"})
_RATE_TABLES = frozenset({"peaks", "flops", "peak_flops", "arithmetic"})
"""Mappings of operations per second by number type."""


class _Rate(float):
    """A number of operations per second."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def lines(data: Mapping[str, Any] | None, prefix: str = "") -> list[tuple[str, str]]:
    """(name, value) pairs, nested mappings flattened with their path; at most 80, and the last then says how many more."""
    found = list(_walk(data or {}, prefix))
    if len(found) > _MOST:
        return [*found[:_MOST], ("more", f"{len(found) - _MOST} further entries are in result.json")]
    return found


def _walk(data: Mapping[str, Any], prefix: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key, value in data.items():
        name = _name(str(key))
        path = f"{prefix} · {name}" if prefix else name
        if isinstance(value, Mapping) and set(value) >= {"value", "low", "high"}:
            found.append(
                (
                    path,
                    f"{words.number(value['value'])} ({words.number(value['low'])} to {words.number(value['high'])})",
                )
            )
        elif isinstance(value, Mapping):
            unit = str(key) if str(key) in _RATE_TABLES else ""
            found += _walk(
                {f"{k}": _Rate(v) if unit and _is_number(v) else v for k, v in value.items()}, path
            )
        elif isinstance(value, list | tuple):
            found.append((path, _listed(value)))
        else:
            found.append((path, text(str(key), value)))
    return found


def _name(key: str) -> str:
    """The key in words, without the unit that its value carries anyway."""
    if key in _NAMES:
        return _NAMES[key]
    if labels.meaning(key):
        return labels.label(key)
    return words.humanize(key.removesuffix("_seconds").removesuffix("_bytes"))


def _listed(value: list[Any] | tuple[Any, ...]) -> str:
    if not value:
        return "none"
    if any(isinstance(item, Mapping | list | tuple) for item in value):
        return f"{len(value)} entries, in result.json"
    shown = ", ".join(text("", item) for item in value[:12])
    return shown if len(value) <= 12 else f"{shown} and {len(value) - 12} more"


def text(key: str, value: Any) -> str:
    """One value; the unit is read from the key's own words (seconds, bytes, flops), never guessed from the size."""
    if isinstance(value, _Rate):
        return words.scaled(value, "OP/s" if key.startswith("int") else "FLOP/s")
    if value is None:
        return words.MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    if not words.known(value):
        return words.MISSING
    if key.endswith("bytes_per_second"):
        return words.scaled(value, "B/s")
    if key.endswith(("flops", "flops_per_second")):
        return words.scaled(value, "FLOP/s")
    if "bytes" in key:
        return words.scaled(value, "B")
    if key.endswith("seconds"):
        return words.duration(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if key in _SHARES:
        return words.percent(value, 2)
    written = words.number(value, 4)
    return written.rstrip("0").rstrip(".") if "." in written and "×" not in written else written
