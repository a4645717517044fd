"""The effect of a change, from paired rounds. The run is the unit, never the request.

A round is one run of each arm under one schedule. Latencies and rates are compared as ratios changed / baseline,
by a paired t interval on the per-round log ratios (t of Student, n - 1 degrees of freedom), with the exact
sign-flip test (all 2^n sign patterns of the log ratios) as a check that needs no normal distribution. Shares are compared
as differences, since a share may honestly be 0 or 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from rooftune.spec.goal import GOAL_DIMENSIONS
from rooftune.store.result import Interval

CONFIRM_ROUNDS = 6
"""Fewest rounds for a claim: with 6, the smallest two-sided sign-flip p value is 2 / 64 = 0.031."""

SCREEN_ROUNDS = 2
"""Fewest rounds for a reading of promise or futility. No claim is made from them."""

_EXACT_UP_TO = 20

Scale = Literal["ratio", "difference", "relative difference"]


@dataclass(frozen=True, slots=True)
class Effect:
    """A change's effect on one metric.

    ``interval`` is on ``scale``: a ratio after / before (1 is no effect), or a difference after - before (0 is no effect).
    ``spread`` is the standard deviation of the per-round effects (log ratios or differences); None with one round.
    ``interval`` None carries ``reason``.
    """

    metric: str
    scale: Scale
    rounds: int
    per_round: tuple[float, ...]
    """Log ratios, or differences, in the order of the rounds."""
    interval: Interval | None
    spread: float | None
    p_value: float | None
    """Paired t test, two-sided."""
    sign_flip_p: float | None
    reason: str | None = None

    @property
    def mean(self) -> float | None:
        """Mean log ratio or mean difference."""
        return float(np.mean(self.per_round)) if self.per_round else None


def paired_effect(baseline: Sequence[float], changed: Sequence[float], level: float = 0.95) -> Interval:
    """Ratio changed / baseline: geometric mean over rounds with its paired t interval.

    The sequences are per-round values in the same order; all above 0, at least 2. Raises ValueError otherwise.
    """
    logs = _log_ratios(baseline, changed)
    mean, low, high = _t_interval(logs, level)
    return Interval(math.exp(mean), math.exp(low), math.exp(high))


def paired_difference(baseline: Sequence[float], changed: Sequence[float], level: float = 0.95) -> Interval:
    """Difference changed - baseline: mean over rounds with its paired t interval."""
    return Interval(*_t_interval(_differences(baseline, changed), level))


def sign_flip_p_value(per_round: Sequence[float]) -> float:
    """Exact two-sided p value: the share of all sign patterns whose |mean| is at least the observed one.

    Exact up to 20 rounds; beyond that 2^20 patterns drawn with a fixed seed.
    """
    values = np.asarray(per_round, dtype=np.float64)
    n = len(values)
    if n == 0:
        raise ValueError("the sign-flip test needs at least one round")
    observed = abs(float(values.sum()))
    tolerance = 1e-12 * float(np.abs(values).sum())
    if n <= _EXACT_UP_TO:
        sums = np.zeros(1)
        for value in values:
            sums = np.concatenate((sums + value, sums - value))
    else:
        generator = np.random.default_rng(0)
        sums = np.zeros(1 << 18)
        for value in values:
            sums += value * generator.choice((-1.0, 1.0), size=sums.shape)
    return float(np.mean(np.abs(sums) >= observed - tolerance))


def measure_effect(
    metric: str, baseline: Sequence[float | None], changed: Sequence[float | None], level: float = 0.95
) -> Effect:
    """Effect on a named metric from per-round values; rounds where either value is missing are left out.

    Shares (and only they) are compared as differences. A rate or latency that is 0 in some round has no log ratio: the effect
    is then the difference over the larger mean, and says so in ``scale`` and ``reason``.
    """
    if len(baseline) != len(changed):
        raise ValueError(
            f"{metric}: {len(baseline)} baseline rounds against {len(changed)}; rounds are pairs"
        )
    pairs = [(b, c) for b, c in zip(baseline, changed, strict=True) if b is not None and c is not None]
    dropped = len(baseline) - len(pairs)
    reason = f"{dropped} of {len(baseline)} rounds have no value" if dropped else None
    if not pairs:
        return Effect(metric, scale_of(metric), 0, (), None, None, None, None, reason or "no rounds")
    before, after = [p[0] for p in pairs], [p[1] for p in pairs]
    scale = scale_of(metric)
    if scale == "ratio" and min(*before, *after) <= 0.0:
        scale = "relative difference"
        reason = _join(reason, "some rounds read 0, so the effect is a difference over the larger mean")
    if scale == "ratio":
        per_round = _log_ratios(before, after)
    else:
        per_round = _differences(before, after)
        if scale == "relative difference":
            larger = max(float(np.mean(before)), float(np.mean(after)))
            per_round = per_round / larger if larger > 0 else per_round
    return _summarise(metric, scale, per_round, level, reason)


def scale_of(metric: str) -> Scale:
    """Shares are compared as differences, all else as ratios."""
    return "difference" if GOAL_DIMENSIONS.get(metric) == "share" else "ratio"


def gain(effect: Effect, sign: str, level: float = 0.95, spread: tuple[float, int] | None = None) -> Interval:
    """The effect as a gain: above 0 is better for the goal's sign (``<=`` lower is better), log ratio or difference.

    ``spread`` (standard deviation, degrees of freedom), pooled over rounds of the same machine and metric, replaces the
    rounds' own, which for 2 rounds says next to nothing. Raises ValueError where there are too few rounds.
    """
    values = np.asarray(effect.per_round, dtype=np.float64) * (-1.0 if sign == "<=" else 1.0)
    if spread is None:
        return Interval(*_t_interval(values, level))
    if len(values) == 0:
        raise ValueError(f"{effect.metric}: no rounds")
    deviation, freedom = spread
    mean = float(values.mean())
    half = _t_quantile(level, freedom) * deviation / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def pooled_spread(effects: Sequence[Effect]) -> tuple[float, int] | None:
    """Standard deviation within rounds pooled over several comparisons of one metric, with its degrees of freedom."""
    usable = [e for e in effects if e.spread is not None and e.rounds >= 2]
    freedom = sum(e.rounds - 1 for e in usable)
    if freedom == 0:
        return None
    squares = sum((e.spread or 0.0) ** 2 * (e.rounds - 1) for e in usable)
    return math.sqrt(squares / freedom), freedom


def _summarise(metric: str, scale: Scale, per_round: np.ndarray, level: float, reason: str | None) -> Effect:
    n = len(per_round)
    if n < 2:
        return Effect(
            metric, scale, n, tuple(map(float, per_round)), None, None, None, None,
            _join(reason, "one round gives no interval"),
        )  # fmt: skip
    mean, low, high = _t_interval(per_round, level)
    interval = (
        Interval(math.exp(mean), math.exp(low), math.exp(high))
        if scale == "ratio"
        else Interval(mean, low, high)
    )
    spread = float(per_round.std(ddof=1))
    return Effect(
        metric,
        scale,
        n,
        tuple(map(float, per_round)),
        interval,
        spread,
        _t_p_value(mean, spread, n),
        sign_flip_p_value(per_round.tolist()),
        reason,
    )


def _t_p_value(mean: float, spread: float, n: int) -> float:
    if spread == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return float(2.0 * special.stdtr(n - 1, -abs(mean) / (spread / math.sqrt(n))))


def _t_interval(values: np.ndarray, level: float) -> tuple[float, float, float]:
    n = len(values)
    if n < 2:
        raise ValueError(f"an interval needs at least 2 rounds, not {n}")
    mean = float(values.mean())
    half = _t_quantile(level, n - 1) * float(values.std(ddof=1)) / math.sqrt(n)
    return mean, mean - half, mean + half


def _t_quantile(level: float, freedom: int) -> float:
    return float(special.stdtrit(freedom, 0.5 + level / 2.0))


def _log_ratios(baseline: Sequence[float], changed: Sequence[float]) -> np.ndarray:
    before, after = _pairs(baseline, changed)
    if (before <= 0).any() or (after <= 0).any():
        raise ValueError("a ratio needs values above 0 in every round")
    ratios: np.ndarray = np.log(after / before)
    return ratios


def _differences(baseline: Sequence[float], changed: Sequence[float]) -> np.ndarray:
    before, after = _pairs(baseline, changed)
    differences: np.ndarray = after - before
    return differences


def _pairs(baseline: Sequence[float], changed: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    if len(baseline) != len(changed):
        raise ValueError(f"{len(baseline)} baseline rounds against {len(changed)}; rounds are pairs")
    before, after = np.asarray(baseline, dtype=np.float64), np.asarray(changed, dtype=np.float64)
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        raise ValueError("a round's value is not finite")
    return before, after


def _join(first: str | None, second: str) -> str:
    return f"{first}; {second}" if first else second
