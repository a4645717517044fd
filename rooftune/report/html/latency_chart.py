"""Latency before and after: the share of requests that were at least this fast, with the SLO as a line."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

from markupsafe import Markup

from rooftune.report import labels, words
from rooftune.report.html.scale import Scale, covering
from rooftune.report.html.svg import element, group, share

_HEIGHT, _TOP, _BOTTOM = 216, 16, 186
_QUANTILES = (("p50", 0.5, 6), ("p90", 0.9, 29), ("p95", 0.95, 59), ("p99", 0.99, 299))
"""Name, share, and the sample below which the percentile is not given."""


@dataclass(frozen=True, slots=True)
class LatencyChart:
    metric: str
    title: str
    meaning: str
    y_axis: Markup
    plot: Markup
    rows: list[tuple[str, str, list[str], str]]
    """Arm's name, its words, the quantiles (or the reason in a word), share within the SLO."""
    slo: str | None


QUANTILE_NAMES = [name for name, _, _ in _QUANTILES]


def latency_chart(metric: str, arms: dict[str, list[float]], slo: float | None) -> LatencyChart | None:
    """``arms``: sorted seconds by arm. None when there is nothing to show."""
    samples = {
        arm: sorted(v for v in arms[arm] if math.isfinite(v))
        for arm in labels.arms_of(arms)
        if any(map(math.isfinite, arms[arm]))
    }
    extent = [v for values in samples.values() for v in (values[0], values[-1])]
    scale = covering([*extent, *([slo] if slo else [])])
    if not samples or scale is None:
        return None
    rows = []
    for arm, values in samples.items():
        quantiles = [
            words.duration(_quantile(values, q)) if len(values) >= needed else f"needs {needed}"
            for _, q, needed in _QUANTILES
        ]
        within = words.percent(bisect_right(values, slo) / len(values)) if slo else words.MISSING
        rows.append((arm, f"{labels.arm(arm)} ({words.plural(len(values), 'request')})", quantiles, within))
    spoken = "; ".join(
        f"{labels.arm(arm)} median {quantiles[0]}, p95 {quantiles[2]}" for arm, _, quantiles, _ in rows
    )
    title = f"{labels.label(metric)} per request, cumulative. {spoken}"
    plot = element(
        "svg",
        element("title", title),
        _grid(scale),
        _slo(scale, slo),
        _curves(scale, samples),
        class_="plot-area",
        role="img",
        width="100%",
        height=_HEIGHT,
        aria_label=title,
    )
    return LatencyChart(
        metric,
        labels.label(metric),
        labels.meaning(metric),
        _y_axis(),
        plot,
        rows,
        words.duration(slo) if slo else None,
    )


def _quantile(values: list[float], q: float) -> float:
    """Inverse of the empirical distribution: the smallest value that at least a share ``q`` does not exceed."""
    return values[max(0, math.ceil(q * len(values)) - 1)]


def _y(level: float) -> float:
    return _BOTTOM - level * (_BOTTOM - _TOP)


def _y_axis() -> Markup:
    marks = (
        element("text", f"{level:.0%}".replace("%", " %"), x=40, y=_y(level) + 4, text_anchor="end")
        for level in (0, 0.25, 0.5, 0.75, 0.95)
    )
    return element("svg", *marks, class_="y-axis", width=44, height=_HEIGHT, aria_hidden="true")


def _grid(scale: Scale) -> Markup:
    lines = [
        element("line", x1="0%", x2="100%", y1=_y(level), y2=_y(level), class_="grid")
        for level in (0, 0.25, 0.5, 0.75, 0.95)
    ]
    for tick in scale.ticks(5):
        x = share(scale(tick))
        lines.append(element("line", x1=x, x2=x, y1=_BOTTOM, y2=_BOTTOM + 4, class_="tick"))
        lines.append(element("text", words.duration(tick, 2), x=x, y=_BOTTOM + 19, text_anchor="middle"))
    return group(lines)


def _slo(scale: Scale, slo: float | None) -> Markup:
    if not slo:
        return Markup("")
    place = scale(slo)
    left = place > 0.6
    return group(
        [
            element(
                "rect", x=share(place), y=_TOP, width=share(1 - place), height=_BOTTOM - _TOP, class_="beyond"
            ),
            element("line", x1=share(place), x2=share(place), y1=_TOP, y2=_BOTTOM, class_="slo"),
            element(
                "text",
                f"SLO {words.duration(slo)}",
                x=share(place),
                y=_TOP - 4,
                text_anchor="end" if left else "start",
                class_="slo-label",
            ),
        ]
    )


def _curves(scale: Scale, samples: dict[str, list[float]]) -> Markup:
    """Paths need numbers, not percentages: an inner view box is stretched, and strokes keep their width."""
    paths = []
    for arm in reversed(list(samples)):
        values = samples[arm]
        steps = [f"M0 1000H{scale(values[0]) * 1000:.1f}"]
        for index, value in enumerate(values):
            steps.append(f"H{scale(value) * 1000:.1f}V{1000 - (index + 1) / len(values) * 1000:.1f}")
        steps.append("H1000")
        paths.append(
            element("path", d="".join(steps), class_=f"curve arm-{arm if arm in labels.ARMS else 'other'}")
        )
    return element(
        "svg",
        *paths,
        x=0,
        y=_TOP,
        width="100%",
        height=_BOTTOM - _TOP,
        viewBox="0 0 1000 1000",
        preserveAspectRatio="none",
    )
