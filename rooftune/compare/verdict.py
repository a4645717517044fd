"""One verdict from goals, effects, quality and validity, with one sentence that a person can act on.

A goal is *improved* or *regressed* when its 95 % interval excludes no effect and the effect is not within the indifference margin;
*no effect* when the whole interval lies within the margin; otherwise *inconclusive*. The overall verdict tests all goals
at once (Holm's step-down correction over the paired t p values), so that an A/A comparison with many goals is called
improved or regressed in at most 5 % of cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rooftune.compare.decide import INDIFFERENCE, describe, worthwhile
from rooftune.compare.effect import CONFIRM_ROUNDS, Effect, gain, measure_effect
from rooftune.spec.goal import Goal
from rooftune.spec.units import format_quantity
from rooftune.store.result import GoalOutcome, Interval, QualityOutcome, Verdict

ERROR = 0.05
_A_FACTOR = 0.8
"""An effect whose whole interval lies beyond this ratio is told as a factor."""

_UNITS = {"time": "s", "rate": "1/s", "share": "1", "money": "currency", "count": "1", "plain": "1"}


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: Verdict
    statement: str
    reasons: tuple[str, ...] = ()
    more_rounds: int | None = None


def goal_outcome(
    goal: Goal,
    baseline: Sequence[float | None],
    final: Sequence[float | None],
    *,
    pooled_baseline: float | None = None,
    pooled_final: float | None = None,
    margin: float = INDIFFERENCE,
) -> tuple[GoalOutcome, Effect]:
    """One goal before and after, from per-round values of both arms.

    The shown values are the pooled ones where given (percentiles over all requests of the rounds), else the mean over rounds.
    """
    effect = measure_effect(goal.metric, baseline, final)
    before = pooled_baseline if pooled_baseline is not None else _mean(baseline)
    after = pooled_final if pooled_final is not None else _mean(final)
    outcome = GoalOutcome(
        metric=goal.metric,
        target=f"{goal.sign} {format_quantity(goal.target, goal.dimension)}",
        sign=goal.sign,
        target_value=goal.target,
        unit=_UNITS.get(goal.dimension, goal.dimension),
        baseline=before,
        final=after,
        met=None if after is None else goal.met(after),
        effect=_as_ratio(effect, before, after),
        verdict=goal_verdict(goal, effect, margin),
        reason=effect.reason,
    )
    return outcome, effect


def goal_verdict(goal: Goal, effect: Effect, margin: float = INDIFFERENCE) -> Verdict:
    """Improved, no effect, regressed or inconclusive for one goal by itself."""
    if effect.rounds < CONFIRM_ROUNDS:
        return "inconclusive"
    interval = gain(effect, goal.sign)
    limit = worthwhile(margin, effect.scale)
    if interval.low > -limit and interval.high < limit:
        return "no effect"
    if interval.low > 0:
        return "improved"
    if interval.high < 0:
        return "regressed"
    return "inconclusive"


def overall(
    goals: Sequence[Goal],
    outcomes: Mapping[str, GoalOutcome],
    effects: Mapping[str, Effect],
    *,
    quality: QualityOutcome | None = None,
    quality_required: bool = True,
    invalid: Sequence[str] = (),
    subject: str = "the final configuration",
    margin: float = INDIFFERENCE,
) -> Judgement:
    """Join everything. ``invalid``: reasons why the comparison must not be used. ``quality_required`` False: every change
    is lossless by construction and quality was not asked for."""
    if invalid:
        return Judgement("invalid", f"Invalid comparison: {invalid[0]}.", tuple(invalid))
    if quality is not None and quality.passed is False:
        return Judgement("regressed", f"Quality got worse: {quality.statement}", (quality.statement,))
    usable = [g for g in goals if g.metric in effects and effects[g.metric].rounds >= CONFIRM_ROUNDS]
    if not usable:
        most = max((e.rounds for e in effects.values()), default=0)
        return Judgement(
            "inconclusive",
            f"Not decided: {most} rounds were measured, a claim needs {CONFIRM_ROUNDS}.",
            more_rounds=max(0, CONFIRM_ROUNDS - most),
        )
    clear = significant({g.metric: effects[g.metric] for g in usable})
    better, worse = [], []
    for goal in usable:
        # Within the margin either way is no effect, however small the interval; else the side decides.
        single = goal_verdict(goal, effects[goal.metric], margin)
        if goal.metric in clear and single == "improved":
            better.append(goal)
        if goal.metric in clear and single == "regressed":
            worse.append(goal)
    lost = [g for g in worse if outcomes.get(g.metric) is None or outcomes[g.metric].met is not True]
    if lost:
        told = _tell(lost[0], effects)
        also = f", though {_tell(better[0], effects)}" if better else ""
        return Judgement("regressed", f"Regressed: {told} with {subject}{also}.", _reasons(usable, effects))
    if better:
        if quality_required and (quality is None or quality.passed is None):
            why = quality.reason if quality is not None and quality.reason else "it was not measured"
            return Judgement(
                "inconclusive",
                f"{_capital(_tell(better[0], effects))} with {subject}, but quality is not known: {why}.",
                _reasons(usable, effects),
            )
        kept = f", quality kept{_in_short(quality)}" if quality is not None else ""
        price = f"; the price: {_tell(worse[0], effects)}" if worse else ""
        return Judgement(
            "improved",
            f"Improved: {_tell(max(better, key=lambda g: gain(effects[g.metric], g.sign).value), effects)} with {subject}"
            f"{kept}{price}; {_goals_met(goals, outcomes)}.",
            _reasons(usable, effects),
        )
    verdicts = {goal_verdict(g, effects[g.metric], margin) for g in usable}
    if verdicts == {"no effect"} or (worse and not lost and verdicts <= {"no effect", "regressed"}):
        return Judgement(
            "no effect",
            f"No effect beyond {margin:.0%} on {', '.join(g.metric for g in usable)} with {subject}.",
            _reasons(usable, effects),
        )
    return Judgement(
        "inconclusive",
        f"Not decided: {_tell(usable[0], effects)} with {subject}, which leaves room for no effect.",
        _reasons(usable, effects),
    )


def significant(effects: Mapping[str, Effect], error: float = ERROR) -> set[str]:
    """Metrics whose effect differs from none with the family's error held at ``error`` (Holm's step-down procedure)."""
    ordered = sorted(
        ((e.p_value, name) for name, e in effects.items() if e.p_value is not None), key=lambda pair: pair[0]
    )
    found: set[str] = set()
    for place, (p, name) in enumerate(ordered):
        if p > error / (len(ordered) - place):
            break
        found.add(name)
    return found


def _as_ratio(effect: Effect, before: float | None, after: float | None) -> Interval | None:
    """The effect as a ratio final / baseline; a difference of shares is put over the baseline's share where that is above 0."""
    if effect.interval is None:
        return None
    if effect.scale == "ratio":
        return effect.interval
    if before is None or after is None or before <= 0:
        return None
    base = 1.0 if effect.scale == "difference" else max(before, after)
    ends = (effect.interval.value, effect.interval.low, effect.interval.high)
    return Interval(*(1.0 + x * base / before for x in ends))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return float(np.mean(known)) if known else None


def _tell(goal: Goal, effects: Mapping[str, Effect]) -> str:
    """The effect in words of the metric it was read on: a factor where it is large, else per cent or points."""
    effect = effects[goal.metric]
    name = _name(effect.metric)
    if effect.scale == "ratio" and effect.interval is not None:
        ratio = effect.interval
        if ratio.high < _A_FACTOR:
            return f"{name} {1 / ratio.value:.1f} times lower ({1 / ratio.high:.1f} to {1 / ratio.low:.1f})"
        if ratio.low > 1 / _A_FACTOR:
            return f"{name} {ratio.value:.1f} times higher ({ratio.low:.1f} to {ratio.high:.1f})"
    return f"{name} {describe(gain(effect, goal.sign), goal, effect.scale)}"


def _name(metric: str) -> str:
    """ttft_mean -> mean TTFT."""
    stem, _, statistic = metric.rpartition("_")
    return (
        f"{statistic} {stem.upper()}" if stem in ("ttft", "tpot", "itl", "e2e") else metric.replace("_", " ")
    )


def _in_short(quality: QualityOutcome) -> str:
    if quality.kl_mean is None or quality.top1_agreement is None:
        return ""
    return f" (mean KL {quality.kl_mean:.2g}, top-1 agreement {quality.top1_agreement:.1%})"


def _reasons(goals: Sequence[Goal], effects: Mapping[str, Effect]) -> tuple[str, ...]:
    return tuple(f"{_tell(g, effects)} over {effects[g.metric].rounds} rounds" for g in goals)


def _goals_met(goals: Sequence[Goal], outcomes: Mapping[str, GoalOutcome]) -> str:
    judged = [outcomes[g.metric].met for g in goals if g.metric in outcomes]
    met = sum(1 for m in judged if m)
    return f"{met} of {len(goals)} goals met"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
