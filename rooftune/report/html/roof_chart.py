"""The machine's roofs: read bandwidth by working-set size, and what else was probed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from rooftune.report import words
from rooftune.report.html.scale import Scale, covering
from rooftune.report.html.svg import element, group, share

_HEIGHT, _TOP, _BOTTOM = 200, 12, 170
_SIZES = ("working_set", "working_set_bytes", "bytes", "size")
_RATES = ("bytes_per_second", "bandwidth", "rate")


@dataclass(frozen=True, slots=True)
class BandwidthChart:
    y_axis: Markup
    plot: Markup
    rows: list[tuple[str, str]]


def size(amount: float) -> str:
    """Bytes in powers of two, as caches are named: 32 KiB, 8 MiB."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if amount >= 2**power:
            return f"{words.number(amount / 2**power)} {unit}"
    return f"{words.number(amount)} B"


def bandwidth_points(roofs: Mapping[str, Any] | None) -> list[tuple[float, float]]:
    """(working set in bytes, bytes per second), by size, from the first list of such points in the roofs."""
    for value in (roofs or {}).values():
        points = _points(value)
        if len(points) >= 2:
            return points
    return []


def _points(value: Any) -> list[tuple[float, float]]:
    entries = value.get("points", value.get("curve", [])) if isinstance(value, Mapping) else value
    points = []
    for entry in entries if isinstance(entries, list | tuple) else ():
        if not isinstance(entry, Mapping):
            continue
        at = next((entry[k] for k in _SIZES if isinstance(entry.get(k), int | float)), None)
        rate = next((entry[k] for k in _RATES if isinstance(entry.get(k), int | float)), None)
        if (
            at is not None
            and rate is not None
            and words.known(at)
            and words.known(rate)
            and at > 0
            and rate > 0
        ):
            points.append((float(at), float(rate)))
    return sorted(points)


def bandwidth_chart(roofs: Mapping[str, Any] | None) -> BandwidthChart | None:
    points = bandwidth_points(roofs)
    if not points:
        return None
    x = Scale(points[0][0], points[-1][0] * 1.0001, log=True)
    y = covering([rate for _, rate in points], from_zero=True)
    if y is None or x.high <= x.low:
        return None
    levels = y.ticks(5)

    def height(rate: float) -> float:
        return _BOTTOM - y(rate) * (_BOTTOM - _TOP)

    marks = [element("line", x1="0%", x2="100%", y1=height(v), y2=height(v), class_="grid") for v in levels]
    powers = [2.0**p for p in range(10, 44, 5) if x.holds(2.0**p)]
    marks += [element("text", size(v), x=share(x(v)), y=_BOTTOM + 19, text_anchor="middle") for v in powers]
    line = "M" + "L".join(f"{x(at) * 1000:.1f} {1000 - y(rate) * 1000:.1f}" for at, rate in points)
    inner = element(
        "svg",
        element("path", d=line, class_="curve arm-final"),
        y=_TOP,
        width="100%",
        height=_BOTTOM - _TOP,
        viewBox="0 0 1000 1000",
        preserveAspectRatio="none",
    )
    dots = [element("circle", cx=share(x(at)), cy=height(rate), r=2.5, class_="after") for at, rate in points]
    spoken = (
        f"Read bandwidth by working set: {words.scaled(points[0][1], 'B/s')} at {size(points[0][0])}, "
        f"{words.scaled(points[-1][1], 'B/s')} at {size(points[-1][0])}"
    )
    plot = element(
        "svg",
        group(marks),
        inner,
        group(dots),
        role="img",
        aria_label=spoken,
        width="100%",
        height=_HEIGHT,
        class_="plot-area",
    )
    axis = element(
        "svg",
        *(
            element("text", words.number(v / 1e9, 2), x=40, y=height(v) + 4, text_anchor="end")
            for v in levels
        ),
        width=44,
        height=_HEIGHT,
        class_="y-axis",
        aria_hidden="true",
    )
    return BandwidthChart(axis, plot, [(size(at), words.scaled(rate, "B/s")) for at, rate in points])
