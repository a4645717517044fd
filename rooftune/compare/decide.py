"""Accept, reject, or say that it is not decided: pure functions of paired rounds.

**One threshold.** Let w be the smallest gain worth a change (the indifference margin, 3 %). A technique is accepted when the whole
95 % interval of its gain lies above w, rejected when the whole interval lies below w, and undecided in between. For any true
gain g, accepting when g <= w and rejecting when g >= w each happen in at most 2.5 % of runs; since every g is on one side of w,
no technique can be accepted in some runs and rejected in others beyond that. Two thresholds (accept above 0, reject
within +-3 %) do not have this property: a true gain of 2 % would get both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rooftune.compare.effect import CONFIRM_ROUNDS, SCREEN_ROUNDS, Effect, Scale, gain
from rooftune.compare.planning import rounds_needed
from rooftune.spec.goal import Goal
from rooftune.store.result import Interval

INDIFFERENCE = 0.03
"""Gains below 3 % (3 points for shares) are not worth a change, harms below it are not a reason to refuse one."""

HARM_LEVEL = 0.99
"""Another goal must be worse beyond its margin at this level to reject: the gap between this and what still accepts is
the hysteresis that keeps a borderline side effect from being accepted in one run and rejected in the next."""


@dataclass(frozen=True, slots=True)
class ScreenDecision:
    """A reading from few rounds: whether confirming is worth its time. It is no claim.

    ``futile`` is only said when the interval (with the machine's pooled spread) excludes a worthwhile gain; a technique that is
    merely unpromising is ``unclear``.
    """

    decision: Literal["promising", "futile", "unclear"]
    reason: str
    gain: Interval | None
    rounds: int


@dataclass(frozen=True, slots=True)
class ConfirmDecision:
    """``gain``: log ratio (or difference) in the good direction, with the interval that decided."""

    decision: Literal["accepted", "rejected", "inconclusive"]
    reason: str
    gain: Interval | None
    rounds: int
    more_rounds: int | None = None
    """Rounds that would probably decide, beyond those done; None where that cannot be said."""


def worthwhile(margin: float, scale: Scale = "ratio") -> float:
    """The threshold on the scale of the gain: log(1 + margin) for ratios."""
    return math.log1p(margin) if scale == "ratio" else margin


def screen(
    effect: Effect,
    goal: Goal,
    spread: tuple[float, int] | None = None,
    margin: float = INDIFFERENCE,
) -> ScreenDecision:
    """Promising, futile or unclear on the deciding metric, from at least 2 rounds.

    ``spread``: (standard deviation, degrees of freedom) of the same metric pooled over this machine's rounds; without it the rounds'
    own spread is used, which at 2 rounds (one degree of freedom) almost never excludes anything.
    """
    if effect.rounds < SCREEN_ROUNDS:
        return ScreenDecision(
            "unclear", f"{effect.rounds} rounds; screening needs {SCREEN_ROUNDS}", None, effect.rounds
        )
    threshold = worthwhile(margin, effect.scale)
    interval = gain(effect, goal.sign, spread=spread)
    shown = describe(interval, goal, effect.scale)
    if interval.high < threshold:
        return ScreenDecision(
            "futile", f"{shown}: a gain of {margin:.0%} on {goal.metric} is excluded", interval, effect.rounds
        )
    if interval.value > threshold:
        return ScreenDecision(
            "promising", f"{shown} in {effect.rounds} short rounds", interval, effect.rounds
        )
    return ScreenDecision(
        "unclear",
        f"{shown}: no promise, but a worthwhile gain is not excluded either",
        interval,
        effect.rounds,
    )


def confirm(
    deciding: Goal,
    effects: Mapping[str, Effect],
    goals: Sequence[Goal] = (),
    *,
    quality_passed: bool | None,
    quality_reason: str = "",
    lossless: bool = False,
    margin: float = INDIFFERENCE,
    margins: Mapping[str, float] | None = None,
    still_met: Mapping[str, bool | None] | None = None,
    looks: int = 1,
) -> ConfirmDecision:
    """Decide from fresh rounds (never those of screening), at least 6.

    ``effects`` by metric; ``goals`` are the others that must not get worse beyond their margin (``margins``, default the
    indifference margin) unless the goal stays met (``still_met``). ``quality_passed`` None: not measured, which only a lossless
    technique may pass. ``looks``: how often the data is looked at in all; the error is split evenly among them.
    """
    level = 1.0 - 0.05 / max(1, looks)
    effect = effects.get(deciding.metric)
    if effect is None or effect.rounds == 0:
        why = effect.reason if effect is not None and effect.reason else "it was not measured"
        return ConfirmDecision("inconclusive", f"{deciding.metric}: {why}", None, 0, CONFIRM_ROUNDS)
    rounds = effect.rounds
    if quality_passed is False:
        return ConfirmDecision("rejected", f"quality: {quality_reason or 'below the margin'}", None, rounds)
    if rounds < CONFIRM_ROUNDS:
        return ConfirmDecision(
            "inconclusive",
            f"{rounds} rounds; a claim needs {CONFIRM_ROUNDS}",
            gain(effect, deciding.sign) if rounds >= 2 else None,
            rounds,
            CONFIRM_ROUNDS - rounds,
        )
    interval = gain(effect, deciding.sign, level)
    threshold = worthwhile(margin, effect.scale)
    shown = f"{deciding.metric} {describe(interval, deciding, effect.scale)} over {rounds} rounds"
    if interval.high < threshold:
        return ConfirmDecision(
            "rejected", _why_rejected(shown, interval, threshold, margin), interval, rounds
        )
    harm = _harms(deciding, effects, goals, margin, margins or {}, still_met or {})
    if harm.rejects is not None:
        return ConfirmDecision("rejected", f"{shown}, but {harm.rejects}", interval, rounds)
    if interval.low <= threshold:
        more = _more_rounds(effect, interval, threshold)
        tail = (
            f"about {more} more rounds would decide"
            if more
            else "no affordable number of rounds would decide"
        )
        excludes = "no effect is excluded, a gain below" if interval.low > 0 else "a gain below"
        return ConfirmDecision(
            "inconclusive",
            f"{shown}: {excludes} {margin:.0%} is not; {tail}",
            interval,
            rounds,
            more,
        )
    if harm.blocks is not None:
        return ConfirmDecision("inconclusive", f"{shown}, but {harm.blocks}", interval, rounds, rounds)
    if quality_passed is None and not lossless:
        return ConfirmDecision("inconclusive", f"{shown}, but quality was not measured", interval, rounds)
    return ConfirmDecision("accepted", f"{shown}, and no goal got worse beyond its margin", interval, rounds)


def deciding_goal(goals: Sequence[Goal], baseline: Mapping[str, float | None]) -> Goal | None:
    """The goal that decides, chosen from the baseline alone (before any trial): the one missed by the largest factor.

    With every goal met, the one with the least headroom. None where no goal could be read.
    """

    def shortfall(goal: Goal) -> float:
        value = baseline.get(goal.metric)
        if value is None:
            return -math.inf
        if value <= 0 or goal.target <= 0:
            return -math.inf if goal.met(value) else math.inf
        ratio = math.log(value / goal.target)
        return ratio if goal.sign == "<=" else -ratio

    readable = [g for g in goals if shortfall(g) > -math.inf or baseline.get(g.metric) is not None]
    return max(readable, key=shortfall) if readable else None


def describe(interval: Interval, goal: Goal, scale: Scale) -> str:
    """A gain interval in words of the metric itself: ``-38.2 % (-41.0 to -35.1 %)`` for a latency that fell."""
    flip = -1.0 if goal.sign == "<=" else 1.0
    numbers = [flip * interval.value, flip * interval.low, flip * interval.high]
    if scale == "ratio":
        value, *ends = (100.0 * math.expm1(x) for x in numbers)
        unit = "%"
    else:
        value, *ends = (100.0 * x for x in numbers)
        unit = "points" if scale == "difference" else "% of the larger mean"
    low, high = sorted(ends)
    return f"{value:+.1f} {unit} ({low:+.1f} to {high:+.1f})"


def _why_rejected(shown: str, interval: Interval, threshold: float, margin: float) -> str:
    if interval.high < 0:
        return f"{shown}: it made things worse"
    if interval.low > -threshold:
        return f"{shown}: no effect beyond {margin:.0%} either way"
    return f"{shown}: a gain of {margin:.0%} is excluded"


@dataclass(frozen=True, slots=True)
class _Harm:
    rejects: str | None = None
    blocks: str | None = None


def _harms(
    deciding: Goal,
    effects: Mapping[str, Effect],
    goals: Sequence[Goal],
    margin: float,
    margins: Mapping[str, float],
    still_met: Mapping[str, bool | None],
) -> _Harm:
    blocks = None
    for goal in goals:
        effect = effects.get(goal.metric)
        if (
            goal.metric == deciding.metric
            or effect is None
            or effect.rounds < 2
            or still_met.get(goal.metric)
        ):
            continue
        limit = worthwhile(margins.get(goal.metric, margin), effect.scale)
        strict = gain(effect, goal.sign, HARM_LEVEL)
        if -strict.high > limit:
            return _Harm(
                rejects=f"{goal.metric} got worse: {describe(gain(effect, goal.sign), goal, effect.scale)}"
            )
        interval = gain(effect, goal.sign)
        half = interval.high - interval.value
        if -interval.value > max(limit, half / 2.0):
            blocks = f"{goal.metric} may have got worse: {describe(interval, goal, effect.scale)}"
    return _Harm(blocks=blocks)


def _more_rounds(effect: Effect, interval: Interval, threshold: float) -> int | None:
    """Rounds that would decide if the true gain were the measured one (at least a quarter of the spread away)."""
    if effect.spread is None:
        return None
    distance = max(abs(interval.value - threshold), effect.spread / 4.0)
    need = rounds_needed(distance, effect.spread, most=100, fewest=effect.rounds + 1)
    return None if need is None else need - effect.rounds
