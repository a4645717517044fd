"""Where a step's time goes against the roof: one stacked bar an arm on one scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from rooftune.report import labels, words
from rooftune.report.html.svg import element, share

COLOURS = 8
KINDS = {
    "measured": "measured here",
    "computed": "computed from the roof",
    "inferred": "inferred: what is left over",
}


@dataclass(frozen=True, slots=True)
class SplitBar:
    arm: str
    title: str
    total: str
    bar: Markup


@dataclass(frozen=True, slots=True)
class SplitChart:
    """Bars, and one table row a part that is the legend as well: swatch, name, kind, value by arm."""

    bars: list[SplitBar]
    rows: list[tuple[Markup, str, str, list[str]]]
    arms: list[str]
    facts: list[tuple[str, str, list[str]]]
    """Other entries of the split: name, its words, value by arm."""


def split_chart(split: dict[str, dict[str, Any]]) -> SplitChart | None:
    """``split``: arm -> {parts: [{name, seconds, kind}], measured_step, roof_step, ...}. None with no part at all."""
    arms = {arm: _parts(split[arm]) for arm in labels.arms_of(split)}
    arms = {arm: parts for arm, parts in arms.items() if parts}
    if not arms:
        return None
    names: dict[str, str] = {name: kind for parts in arms.values() for name, _, kind in parts}
    colour = {name: index % COLOURS for index, name in enumerate(names)}
    widest = max(max(sum(s for _, s, _ in parts), _step(split[arm]) or 0.0) for arm, parts in arms.items())
    bars = [
        SplitBar(arm, labels.arm(arm), _total(split[arm], parts), _bar(arm, parts, colour, split[arm], widest))
        for arm, parts in arms.items()
    ]
    rows = []
    for name, kind in names.items():
        seconds = [next((s for n, s, _ in parts if n == name), None) for parts in arms.values()]
        rows.append((_swatch(colour[name], kind), name, KINDS.get(kind, kind), [words.duration(s) for s in seconds]))
    known = {key: None for arm in arms for key in split[arm] if key != "parts"}
    facts = [
        (key, words.humanize(key), [_fact(key, split[arm].get(key)) for arm in arms])
        for key in known
        if any(isinstance(split[arm].get(key), int | float | str) for arm in arms)
    ]
    return SplitChart(bars, rows, list(arms), facts)


def _fact(key: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return words.MISSING if value is None else str(value)
    return words.duration(value) if "step" in key or "second" in key else words.number(value)


def _parts(arm: dict[str, Any]) -> list[tuple[str, float, str]]:
    return [
        (str(part.get("name", "")), float(part["seconds"]), str(part.get("kind", "")))
        for part in arm.get("parts") or []
        if isinstance(part.get("seconds"), int | float) and words.known(part["seconds"]) and part["seconds"] >= 0
    ]


def _step(arm: dict[str, Any]) -> float | None:
    value = arm.get("measured_step")
    return float(value) if isinstance(value, int | float) and words.known(value) else None


def _total(arm: dict[str, Any], parts: list[tuple[str, float, str]]) -> str:
    step = _step(arm)
    if step is not None:
        return f"{words.duration(step)} a step, measured"
    return f"{words.duration(sum(s for _, s, _ in parts))} a step, sum of the parts"


def _bar(
    arm: str, parts: list[tuple[str, float, str]], colour: dict[str, int], facts: dict[str, Any], widest: float
) -> Markup:
    pieces, at = [], 0.0
    for name, seconds, kind in parts:
        x, width = share(at / widest if widest else 0), share(seconds / widest if widest else 0)
        title = element("title", f"{name}: {words.duration(seconds)}, {KINDS.get(kind, kind)}")
        pieces.append(element("rect", title, x=x, y=2, width=width, height=34, class_=f"part c{colour[name]}"))
        if kind in ("computed", "inferred"):
            pieces.append(element("rect", x=x, y=2, width=width, height=34, fill=f"url(#{kind})", pointer_events="none"))
        if widest and seconds / widest > 0.15:
            middle = share((at + seconds / 2) / widest)
            pieces.append(element("rect", x=middle, y=9, width=58, height=20, rx=10, transform="translate(-29 0)", class_="plate"))
            pieces.append(element("text", words.duration(seconds, 2), x=middle, y=23, text_anchor="middle", class_="inside"))
        at += seconds
    roof = facts.get("roof_step")
    if isinstance(roof, int | float) and words.known(roof) and widest and roof <= widest * 1.001:
        place = share(roof / widest)
        pieces.append(element("line", x1=place, x2=place, y1=0, y2=48, class_="roof"))
        pieces.append(element("text", f"roof {words.duration(roof)}", x=place, y=56, dx=-4, text_anchor="end", class_="roof-label"))
    spoken = f"{labels.arm(arm)}: " + ", ".join(f"{n} {words.duration(s)} ({k})" for n, s, k in parts)
    return element("svg", *pieces, role="img", aria_label=spoken, width="100%", height=60, class_="split")


def _swatch(colour: int, kind: str) -> Markup:
    pieces = [element("rect", width=18, height=14, rx=2, class_=f"part c{colour}")]
    if kind in ("computed", "inferred"):
        pieces.append(element("rect", width=18, height=14, rx=2, fill=f"url(#{kind})"))
    return element("svg", *pieces, width=18, height=14, aria_hidden="true", class_="swatch")
