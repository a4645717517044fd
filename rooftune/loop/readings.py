"""Metrics over the runs of an arm together: percentiles over all requests, rates over the sum of the windows."""

from __future__ import annotations

from collections.abc import Sequence

from rooftune.metrics.pool import context_of, pooled
from rooftune.metrics.registry import compute
from rooftune.spec import Goal
from rooftune.store.run import MetricValue, Run


def pooled_metric(name: str, runs: Sequence[Run]) -> MetricValue:
    """One metric over all runs together; None with a reason where there are none."""
    if not runs:
        return MetricValue(name, None, "", reason="no run was finished")
    return compute(name, pooled([context_of(run) for run in runs]))


def pooled_values(goals: Sequence[Goal], runs: Sequence[Run]) -> dict[str, float | None]:
    """Each goal's metric over all runs together."""
    return {goal.metric: pooled_metric(goal.metric, runs).value for goal in goals}


def latencies(runs: Sequence[Run], most: int = 400) -> dict[str, list[float]]:
    """Sorted per-request values in seconds for the distributions, thinned evenly to at most ``most`` each."""
    values: dict[str, list[float]] = {"ttft": [], "tpot": [], "e2e": []}
    for run in runs:
        for record in run.records:
            first, last, end = record.first_token_ns, record.last_token_ns, record.end_ns
            if not record.succeeded or first is None or last is None or end is None:
                continue
            values["ttft"].append((first - record.scheduled_ns) / 1e9)
            values["e2e"].append((end - record.scheduled_ns) / 1e9)
            if record.output_tokens is not None and record.output_tokens > 1:
                values["tpot"].append((last - first) / 1e9 / (record.output_tokens - 1))
    return {name: _thin(sorted(numbers), most) for name, numbers in values.items()}


def _thin(ordered: list[float], most: int) -> list[float]:
    if len(ordered) <= most:
        return ordered
    return [ordered[round(i * (len(ordered) - 1) / (most - 1))] for i in range(most)]
