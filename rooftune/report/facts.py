"""Free-form parts of a result (environment, plan, noise, ...) as lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooftune.report import labels, words

_MOST = 80


def lines(data: Mapping[str, Any] | None, prefix: str = "") -> list[tuple[str, str]]:
    """(name, value) pairs, nested mappings flattened with their path; at most 80, and the last then says how many more."""
    found = list(_walk(data or {}, prefix))
    if len(found) > _MOST:
        return [*found[:_MOST], ("more", f"{len(found) - _MOST} further entries are in result.json")]
    return found


def _walk(data: Mapping[str, Any], prefix: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key, value in data.items():
        name = labels.label(str(key)) if labels.meaning(str(key)) else words.humanize(str(key))
        path = f"{prefix} · {name}" if prefix else name
        if isinstance(value, Mapping) and set(value) >= {"value", "low", "high"}:
            found.append((path, f"{words.number(value['value'])} ({words.number(value['low'])} to {words.number(value['high'])})"))
        elif isinstance(value, Mapping):
            found += _walk(value, path)
        elif isinstance(value, list | tuple):
            found.append((path, _listed(value)))
        else:
            found.append((path, text(str(key), value)))
    return found


def _listed(value: list[Any] | tuple[Any, ...]) -> str:
    if not value:
        return "none"
    if any(isinstance(item, Mapping | list | tuple) for item in value):
        return f"{len(value)} entries, in result.json"
    shown = ", ".join(text("", item) for item in value[:12])
    return shown if len(value) <= 12 else f"{shown} and {len(value) - 12} more"


def text(key: str, value: Any) -> str:
    """One value; the unit is read from the key's own words (seconds, bytes, flops), never guessed from the size."""
    if value is None:
        return "not known"
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
    return words.number(value, 4)
