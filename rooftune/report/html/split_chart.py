"""Where the time goes against the roof: one stacked bar an arm on one scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from rooftune.report import labels, words
from rooftune.report.html.svg import element, share

COLOURS = 8
KINDS = {"measured": "measured", "computed": "computed", "inferred": "inferred"}
"""How a part is known, as the diagnosis says it."""


@dataclass(frozen=True, slots=True)
class SplitBar:
    arm: str
    title: str
    total: str
    bar: Markup


@dataclass(frozen=True, slots=True)
class SplitChart:
    """Bars, and one table row a part that is the legend as well: swatch, name, kind, value by arm."""

    title: str
    meaning: str
    bars: list[SplitBar]
    rows: list[tuple[Markup, str, str, list[str]]]
    arms: list[str]
    notes: list[str]
    """What each arm's split was taken over, or why it has none."""


_SPLITS = {
    "ttft": ("Time to first token", "mean, from the scheduled time"),
    "tpot": ("Time per output token", "mean, as the client sees it"),
    "decode_step": ("One decode step", "one forward pass that adds a token to every running answer"),
}


def split_charts(split: Mapping[str, Mapping[str, Any]]) -> list[SplitChart]:
    """``split``: arm -> {ttft, tpot, decode_step: {measured, floor, basis, reason, parts: [{name, seconds, kind}]}}.

    An arm that has ``parts`` alone gives one chart of its step.
    """
    charts = []
    for key, (title, meaning) in _SPLITS.items():
        arms = {arm: found[key] for arm, found in split.items() if isinstance(found.get(key), Mapping)}
        chart = _chart(title, meaning, arms)
        if chart is not None:
            charts.append(chart)
    if not charts:
        chart = _chart("One step", "one forward pass over the batch", split)
        charts = [chart] if chart is not None else []
    return charts


def _chart(title: str, meaning: str, split: Mapping[str, Mapping[str, Any]]) -> SplitChart | None:
    parts = {arm: _parts(split[arm]) for arm in labels.arms_of(split)}
    arms = {arm: found for arm, found in parts.items() if found}
    said = {arm: str(split[arm].get("basis" if arm in arms else "reason") or "") for arm in parts}
    if len(arms) > 1 and len(set(said.values())) == 1:
        notes = [next(iter(said.values()))]
    else:
        notes = [f"{labels.arm(arm)}: {why}" for arm, why in said.items()]
    notes = [note for note in notes if note and not note.endswith(": ")]
    if not arms:
        return None
    names: dict[str, str] = {name: kind for found in arms.values() for name, _, kind in found}
    colour = {name: index % COLOURS for index, name in enumerate(names)}
    widest = max(
        max(sum(s for _, s, _ in found), _measured(split[arm]) or 0.0) for arm, found in arms.items()
    )
    bars = [
        SplitBar(
            arm,
            labels.arm(arm),
            _total(split[arm], found),
            _bar(arm, found, colour, _floor(split[arm]), widest),
        )
        for arm, found in arms.items()
    ]
    rows = []
    for name, kind in names.items():
        seconds = [next((s for n, s, _ in found if n == name), None) for found in arms.values()]
        rows.append(
            (_swatch(colour[name], kind), name, KINDS.get(kind, kind), [words.duration(s) for s in seconds])
        )
    return SplitChart(title, meaning, bars, rows, list(arms), notes)


def _parts(arm: Mapping[str, Any]) -> list[tuple[str, float, str]]:
    return [
        (str(part.get("name", "")), float(part["seconds"]), str(part.get("kind", "")))
        for part in arm.get("parts") or []
        if isinstance(part.get("seconds"), int | float)
        and words.known(part["seconds"])
        and part["seconds"] >= 0
    ]


def _measured(arm: Mapping[str, Any]) -> float | None:
    return _number(arm, "measured", "measured_step")


def _floor(arm: Mapping[str, Any]) -> float | None:
    """The roof: the least that the work could take on this machine."""
    return _number(arm, "floor")


def _number(arm: Mapping[str, Any], *keys: str) -> float | None:
    for key in keys:
        value = arm.get(key)
        if isinstance(value, int | float) and words.known(value):
            return float(value)
    return None


def _total(arm: Mapping[str, Any], parts: list[tuple[str, float, str]]) -> str:
    whole = _measured(arm)
    if whole is not None:
        return f"{words.duration(whole)}, measured"
    return f"{words.duration(sum(s for _, s, _ in parts))}, the sum of the parts"


def _bar(
    arm: str, parts: list[tuple[str, float, str]], colour: dict[str, int], roof: float | None, widest: float
) -> Markup:
    pieces, at = [], 0.0
    for name, seconds, kind in parts:
        x, width = share(at / widest if widest else 0), share(seconds / widest if widest else 0)
        title = element("title", f"{name}: {words.duration(seconds)}, {KINDS.get(kind, kind)}")
        pieces.append(
            element("rect", title, x=x, y=2, width=width, height=34, class_=f"part c{colour[name]}")
        )
        if kind in ("computed", "inferred"):
            pieces.append(
                element("rect", x=x, y=2, width=width, height=34, fill=f"url(#{kind})", pointer_events="none")
            )
        if widest and seconds / widest > 0.15:
            middle = share((at + seconds / 2) / widest)
            pieces.append(
                element(
                    "rect",
                    x=middle,
                    y=9,
                    width=58,
                    height=20,
                    rx=10,
                    transform="translate(-29 0)",
                    class_="plate",
                )
            )
            pieces.append(
                element(
                    "text", words.duration(seconds, 2), x=middle, y=23, text_anchor="middle", class_="inside"
                )
            )
        at += seconds
    if roof is not None and widest and roof <= widest * 1.001:
        place = share(roof / widest)
        left = roof / widest > 0.25
        pieces.append(element("line", x1=place, x2=place, y1=0, y2=50, class_="roof"))
        pieces.append(
            element(
                "text",
                f"roof {words.duration(roof)}",
                x=place,
                y=48,
                dx=-5 if left else 5,
                text_anchor="end" if left else "start",
                class_="roof-label",
            )
        )
    spoken = f"{labels.arm(arm)}: " + ", ".join(f"{n} {words.duration(s)} ({k})" for n, s, k in parts)
    return element(
        "svg",
        *pieces,
        role="img",
        aria_label=spoken,
        width="100%",
        height=38 if roof is None else 54,
        class_="split",
    )


def _swatch(colour: int, kind: str) -> Markup:
    pieces = [element("rect", width=18, height=14, rx=2, class_=f"part c{colour}")]
    if kind in ("computed", "inferred"):
        pieces.append(element("rect", width=18, height=14, rx=2, fill=f"url(#{kind})"))
    return element("svg", *pieces, width=18, height=14, aria_hidden="true", class_="swatch")
