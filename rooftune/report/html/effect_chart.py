"""Predicted against measured: intervals of a ratio after / before on one logarithmic axis, one row a metric."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from rooftune.report import labels, words
from rooftune.report.html.scale import Scale, ratio_ticks, ratios
from rooftune.report.html.svg import element, share
from rooftune.store.result import Interval, Prediction, TechniqueOutcome

Tone = Literal["better", "worse", "unclear"]


@dataclass(frozen=True, slots=True)
class EffectRow:
    metric: str
    title: str
    plot: Markup
    predicted: str
    basis: str
    measured: str
    tone: Tone
    hit: bool | None


def common_scale(techniques: Iterable[TechniqueOutcome]) -> Scale:
    """One axis for all techniques, so that lengths can be compared down the page."""
    values: list[float] = []
    for technique in techniques:
        for prediction in technique.predicted:
            values += [prediction.low, prediction.high]
        for effect in technique.measured.values():
            values += [effect.value, effect.low, effect.high]
    return ratios(values)


def tone(metric: str, effect: Interval | None) -> Tone:
    """Better or worse only where the interval excludes no effect and the metric's direction is known."""
    if effect is None or not words.known(effect.low) or not words.known(effect.high):
        return "unclear"
    if effect.low <= 1 <= effect.high:
        return "unclear"
    way = labels.direction(metric)
    if way == "unknown":
        return "unclear"
    return "better" if (effect.high < 1) == (way == "lower") else "worse"


def effect_rows(technique: TechniqueOutcome, scale: Scale) -> list[EffectRow]:
    """One row for each metric that was predicted or measured, predictions first."""
    metrics = list(dict.fromkeys([*(p.metric for p in technique.predicted), *technique.measured]))
    rows = []
    for metric in metrics:
        prediction = next((p for p in technique.predicted if p.metric == metric), None)
        effect = technique.measured.get(metric)
        rows.append(
            EffectRow(
                metric,
                labels.label(metric),
                _plot(metric, prediction, effect, scale),
                f"Predicted × {words.number(prediction.low, 2)} to {words.number(prediction.high, 2)}"
                if prediction
                else "Not predicted",
                prediction.basis if prediction else "",
                words.ratio(effect) if effect else "not measured",
                tone(metric, effect),
                prediction.hit if prediction else None,
            )
        )
    return rows


def axis(scale: Scale) -> Markup:
    """The tick labels, drawn once under the rows of a technique."""
    marks = [
        element(
            "text",
            "no change" if tick == 1 else f"× {tick:g}",
            x=share(scale(tick)),
            y=12,
            text_anchor="middle",
        )
        for tick in ratio_ticks(scale, 5)
    ]
    return element("svg", *marks, class_="ratio-axis", width="100%", height=16, aria_hidden="true")


def _plot(metric: str, prediction: Prediction | None, effect: Interval | None, scale: Scale) -> Markup:
    pieces = [
        element(
            "line", x1=share(scale(t)), x2=share(scale(t)), y1=0, y2=30, class_="one" if t == 1 else "grid"
        )
        for t in ratio_ticks(scale, 5)
    ]
    spoken = [labels.label(metric)]
    if prediction is not None and words.known(prediction.low) and words.known(prediction.high):
        left, right = scale(prediction.low), scale(prediction.high)
        pieces.append(
            element(
                "rect",
                x=share(left),
                y=8,
                width=share(max(right - left, 0.004)),
                height=14,
                rx=3,
                class_="predicted",
            )
        )
        spoken.append(f"predicted ratio {words.number(prediction.low)} to {words.number(prediction.high)}")
    if effect is not None and all(map(words.known, (effect.value, effect.low, effect.high))):
        kind = tone(metric, effect)
        low, high, middle = share(scale(effect.low)), share(scale(effect.high)), share(scale(effect.value))
        pieces.append(element("line", x1=low, x2=high, y1=15, y2=15, class_=f"whisker {kind}"))
        pieces.append(element("circle", cx=middle, cy=15, r=5, class_=f"dot {kind}"))
        spoken.append(f"measured {words.ratio(effect)}")
    return element(
        "svg", *pieces, role="img", aria_label=", ".join(spoken), width="100%", height=30, class_="effect"
    )
