"""What got worse besides the goals: tails, memory, errors, other metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rooftune.compare.decide import INDIFFERENCE, describe, worthwhile
from rooftune.compare.effect import Effect, gain, measure_effect
from rooftune.compare.verdict import significant
from rooftune.spec.goal import GOAL_DIMENSIONS, Goal, Sign
from rooftune.store.run import Run

Rounds = Mapping[str, tuple[Sequence[float | None], Sequence[float | None]]]
"""Metric -> per-round values of the baseline and of the final arm."""

_HIGHER_IS_BETTER = ("goodput", "slo_attainment")
_NOT_A_COST = ("send_lag", "input_tokens", "mfu", "mbu")
"""What the client did, what the workload decides, and how busy the machine was: less work for the same answers is no harm."""
_MEMORY = ("memory", "rss", "resident")
_RATIO_MARGIN_OF_MEMORY = 0.05


@dataclass(frozen=True, slots=True)
class SideEffect:
    metric: str
    certain: bool
    """True: its interval excludes no harm after correction for the number of metrics looked at. False: seen, not proven."""
    statement: str
    effect: Effect | None


def side_effects(rounds: Rounds, goals: Sequence[str] = (), margin: float = INDIFFERENCE) -> list[SideEffect]:
    """Metrics outside ``goals`` that got worse: first what is certain, then what the rounds show but do not prove."""
    effects = {}
    for metric, (before, after) in rounds.items():
        if metric in goals or metric.startswith(_NOT_A_COST) or direction(metric) is None:
            continue
        effect = measure_effect(metric, before, after)
        if effect.rounds >= 2:
            effects[metric] = effect
    clear = significant(effects)
    found = []
    for metric, effect in effects.items():
        sign = direction(metric)
        if sign is None:
            continue
        limit = worthwhile(margin if effect.scale == "ratio" else min(margin, 0.01), effect.scale)
        interval = gain(effect, sign)
        if -interval.value <= limit:
            continue
        certain = metric in clear and interval.high < 0
        # Unproven harm is worth a line only where it is large against its own noise.
        if not certain and -interval.value < 0.5 * (interval.high - interval.low):
            continue
        goal = Goal(metric, sign, 0.0, GOAL_DIMENSIONS.get(metric, "plain"))
        shown = describe(interval, goal, effect.scale)
        tail = "" if certain else " (seen, not proven)"
        found.append(SideEffect(metric, certain, f"{metric} got worse: {shown}{tail}", effect))
    return sorted(found, key=lambda s: not s.certain)


def side_effects_of_runs(
    baseline: Sequence[Run], final: Sequence[Run], goals: Sequence[str] = ()
) -> list[SideEffect]:
    """Side effects from the runs of the confirming rounds (same order): every metric with a value, memory, errors."""
    names = {m.name for run in (*baseline, *final) for m in run.metrics}
    rounds = {
        name: ([_value(run, name) for run in baseline], [_value(run, name) for run in final])
        for name in sorted(names)
    }
    return [*side_effects(rounds, goals), *_memory(baseline, final), *_errors(baseline, final)]


def direction(metric: str) -> Sign | None:
    """The sign under which more is better (``>=``) or less is (``<=``); None where neither is."""
    if metric.startswith(("ttft", "tpot", "itl", "e2e", "cost", "error_rate", "chunk_gap")):
        return "<="
    if metric.endswith("_per_second") or metric in _HIGHER_IS_BETTER:
        return ">="
    return None


def _memory(baseline: Sequence[Run], final: Sequence[Run]) -> list[SideEffect]:
    before, after = _peak_memory(baseline), _peak_memory(final)
    if before is None or after is None or after <= before * (1.0 + _RATIO_MARGIN_OF_MEMORY):
        return []
    text = f"peak memory of the server {before / 2**20:.0f} -> {after / 2**20:.0f} MiB ({after / before - 1:+.0%})"
    return [SideEffect("memory", True, text, None)]


def _peak_memory(runs: Sequence[Run]) -> float | None:
    peaks = [
        max(series.values)
        for run in runs
        for series in run.series
        if series.values and any(word in series.name for word in _MEMORY)
    ]
    return max(peaks) if peaks else None


def _errors(baseline: Sequence[Run], final: Sequence[Run]) -> list[SideEffect]:
    def failed(runs: Sequence[Run]) -> tuple[int, int]:
        records = [r for run in runs for r in run.records]
        return sum(not r.succeeded for r in records), len(records)

    (bad_before, all_before), (bad_after, all_after) = failed(baseline), failed(final)
    if not all_before or not all_after or bad_after * all_before <= bad_before * all_after:
        return []
    certain: Literal[True] | bool = bad_after > bad_before + 3 * max(1.0, bad_before**0.5)
    text = f"failed requests {bad_before} of {all_before} -> {bad_after} of {all_after}"
    return [SideEffect("errors", bool(certain), text, None)]


def _value(run: Run, name: str) -> float | None:
    metric = run.metric(name)
    return None if metric is None or metric.value is None or not np.isfinite(metric.value) else metric.value
