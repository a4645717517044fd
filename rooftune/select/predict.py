"""Predictions before a trial, and their score after it.

A prediction is an interval on the ratio after / before that must hold with about 90 %. It is worth something only if it
beats "no effect, give or take the noise": the skill compares their interval scores (Gneiting and Raftery 2007).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from rooftune.errors import WrongInput
from rooftune.select.simulate import RUN_SPREAD, SCHEDULING, Simulator
from rooftune.store.result import Interval
from rooftune.store.run import Run
from rooftune.techniques.card import Card, PredictedEffect, TechniqueContext
from rooftune.workload.schedule import Schedule

Scale = Literal["ratio", "difference", "relative difference"]
LEVEL = 0.90
_Z = 1.6449
"""Half-width of a 90 % interval in standard deviations."""

_KEPT: dict[tuple[str, str, float], Simulator] = {}
"""The last run's simulator: all candidates of a stage are predicted from the same baseline."""


def predict(
    card: Card,
    context: TechniqueContext,
    baseline_run: Run | None,
    schedule: Schedule | None,
    *,
    run_spread: float = RUN_SPREAD,
) -> tuple[PredictedEffect, ...]:
    """What the card's change would do to the run.

    Scheduling switches are simulated with the run's own load and steps; other switches scale the steps by what the card
    expects and are then simulated too. Where the run cannot be simulated, the card's own estimate stands; () when
    nothing is known, which is no prediction at all rather than a wide one. run_spread: standard deviation of the log of
    the machine's speed between equal runs, where an A/A reading gave it.
    """
    change = card.change(context)
    own = card.predict(context)
    if not change or baseline_run is None or schedule is None:
        return own
    scale = (1.0, 1.0)
    if not set(change) <= SCHEDULING:
        steps = next((effect for effect in own if effect.metric == "tpot_mean"), None)
        if steps is None:
            return own
        scale = (steps.low, steps.high)
    try:
        effects = _simulator(baseline_run, schedule, run_spread).effects(change, scale)
    except WrongInput:
        return own
    if scale != (1.0, 1.0) and own:
        return tuple(
            PredictedEffect(e.metric, e.low, e.high, f"{own[0].basis}; the queue {e.basis}") for e in effects
        )
    return effects or own


def _simulator(run: Run, schedule: Schedule, run_spread: float) -> Simulator:
    key = (run.id, schedule.hash, run_spread)
    if key not in _KEPT:
        built = Simulator(run, schedule, run_spread=run_spread)
        _KEPT.clear()
        _KEPT[key] = built
    return _KEPT[key]


def score(
    predicted: PredictedEffect, measured: Interval, scale: Scale = "ratio", baseline: float | None = None
) -> Literal["hit", "miss"]:
    """Whether the measured effect's interval overlaps the predicted one.

    Shares are measured as differences (scale "difference"): then ``baseline`` is the share before, and the predicted
    ratio becomes baseline * (ratio - 1).
    """
    low, high = _on_scale(predicted, scale, baseline)
    return "hit" if measured.low <= high and low <= measured.high else "miss"


@dataclass(frozen=True, slots=True)
class Skill:
    """``value``: 1 - score / score of "no effect ± noise": above 0 the prediction was worth making, 1 is perfect."""

    value: float
    score: float
    reference: float


def skill(predicted: PredictedEffect, measured_ratio: float, noise: float) -> Skill:
    """Interval score of a prediction against that of "no effect ± noise", in log ratio.

    measured_ratio: point estimate after / before. noise: standard deviation of the log ratio between equal arms (A/A); the
    reference interval is its 90 %.
    """
    if measured_ratio <= 0 or noise <= 0:
        raise ValueError("a ratio and a noise above 0 are needed")
    outcome = math.log(measured_ratio)
    own = interval_score(math.log(predicted.low), math.log(predicted.high), outcome)
    reference = interval_score(-_Z * noise, _Z * noise, outcome)
    return Skill(1.0 - own / reference, own, reference)


def interval_score(low: float, high: float, outcome: float, level: float = LEVEL) -> float:
    """Width, plus 2 / (1 - level) times the distance by which the outcome lies outside. Lower is better."""
    miss = max(low - outcome, outcome - high, 0.0)
    return (high - low) + 2.0 / (1.0 - level) * miss


def crps(predicted: PredictedEffect, measured_ratio: float) -> float:
    """Continuous ranked probability score of the prediction read as a normal in log ratio. Lower is better."""
    low, high = math.log(predicted.low), math.log(predicted.high)
    deviation = max((high - low) / (2 * _Z), 1e-6)
    z = (math.log(measured_ratio) - (low + high) / 2) / deviation
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + math.erf(z / math.sqrt(2)))
    return deviation * (z * (2 * below - 1) + 2 * density - 1 / math.sqrt(math.pi))


def _on_scale(predicted: PredictedEffect, scale: Scale, baseline: float | None) -> tuple[float, float]:
    if scale == "ratio":
        return predicted.low, predicted.high
    if scale == "relative difference":
        return predicted.low - 1.0, predicted.high - 1.0
    if baseline is None:
        raise ValueError("a difference can be scored only with the baseline's value")
    return baseline * (predicted.low - 1.0), baseline * (predicted.high - 1.0)
