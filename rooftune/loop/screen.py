"""Screening: each technique alone on top of what is already stacked, in short rounds. It nominates; it does not accept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from rooftune.compare.decide import ScreenDecision, screen
from rooftune.compare.effect import Effect, measure_effect, pooled_spread
from rooftune.compare.same_conditions import compare_conditions
from rooftune.loop.proxies import values
from rooftune.loop.trials import Arm, ArmFailed, Trials
from rooftune.select.candidates import Candidate
from rooftune.spec import Configuration, Goal
from rooftune.store.result import Interval
from rooftune.store.run import Run


@dataclass(slots=True)
class Screened:
    """What screening says of one technique. ``failed`` is a reason why it could not be measured at all."""

    candidate: Candidate
    arm: Arm
    runs: list[Run | None]
    effect: Effect | None = None
    others: dict[str, Effect] | None = None
    before: dict[str, float] = field(default_factory=dict)
    """Mean of the base arm by metric: what a predicted ratio of a share starts from."""
    decision: ScreenDecision | None = None
    failed: str | None = None
    noop: str | None = None

    def measured(self) -> dict[str, Interval]:
        """Ratios after / before by metric. The deciding one carries the interval that decided, with the stage's pooled spread;
        a share's difference has no place here."""
        effects = [*(self.others or {}).values(), *([self.effect] if self.effect is not None else [])]
        found = {e.metric: e.interval for e in effects if e.interval is not None and e.scale == "ratio"}
        gain = self.decision.gain if self.decision is not None else None
        if gain is not None and self.effect is not None and self.effect.metric in found:
            flip = math.copysign(1.0, (self.effect.mean or 0.0) * gain.value)
            ends = sorted(math.exp(flip * end) for end in (gain.low, gain.high))
            found[self.effect.metric] = Interval(math.exp(flip * gain.value), ends[0], ends[1])
        return found

    @property
    def promising(self) -> bool:
        return (
            self.failed is None
            and self.noop is None
            and self.decision is not None
            and self.decision.decision == "promising"
        )


def screen_all(
    trials: Trials,
    base: Arm,
    candidates: Sequence[Candidate],
    deciding: Goal,
    watched: Sequence[Goal],
    *,
    stage: str,
    rounds: int,
    requests: int,
    rate: float | None,
    expected_seconds: float,
) -> tuple[list[Screened], list[Run]]:
    """Run every candidate beside the base arm under the same schedules; returns the readings and the base's runs."""
    screened = [
        Screened(candidate, Arm(candidate.card.name, merged(base.configuration, candidate.change)), [])
        for candidate in candidates
    ]
    base_runs: list[Run] = []
    for number in range(rounds):
        schedule = trials.schedule(stage, number, requests, rate)
        if number == 0:
            trials.start([base, *(s.arm for s in screened)], stage, number)
        order = trials.order([base, *(s.arm for s in screened if s.failed is None)], stage, number)
        measured: dict[str, Run | None] = {}
        for arm in order:
            try:
                measured[arm.name] = trials.run(
                    arm, schedule, stage=stage, number=number, expected_seconds=expected_seconds
                )
            except ArmFailed as problem:
                if arm is base:
                    raise
                measured[arm.name] = None
                next(s for s in screened if s.arm is arm).failed = str(problem)
        base_run = measured[base.name]
        assert base_run is not None
        base_runs.append(base_run)
        for one in screened:
            one.runs.append(measured.get(one.arm.name))
    _judge(screened, base_runs, deciding, watched)
    return screened, base_runs


def _judge(
    screened: Sequence[Screened], base_runs: Sequence[Run], deciding: Goal, watched: Sequence[Goal]
) -> None:
    """Effects with the spread pooled over all candidates of the stage, since two rounds alone say little of it."""
    measured = [s for s in screened if s.failed is None]
    before = values(base_runs, deciding.metric)
    for one in measured:
        one.effect = measure_effect(deciding.metric, before, values(one.runs, deciding.metric))
        told = {*(goal.metric for goal in watched), *(effect.metric for effect in one.candidate.predicted)}
        one.others = {
            name: measure_effect(name, values(base_runs, name), values(one.runs, name))
            for name in sorted(told - {deciding.metric})
        }
        for name in {deciding.metric, *told}:
            known = [value for value in values(base_runs, name) if value is not None]
            if known:
                one.before[name] = sum(known) / len(known)
    spread = pooled_spread([one.effect for one in measured if one.effect is not None])
    for one in measured:
        assert one.effect is not None
        one.decision = screen(one.effect, deciding, spread=spread)
        changed = next((run for run in one.runs if run is not None), None)
        if changed is not None:
            conditions = compare_conditions(base_runs[0], changed, one.candidate.change)
            one.noop = next(
                (reason for reason in conditions.invalid if reason.startswith("config_noop")), None
            )


def merged(base: Configuration, change: Configuration) -> Configuration:
    return {**base, **change}
