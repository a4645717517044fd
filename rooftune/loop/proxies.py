"""Which metric carries a goal's effect in one run.

A goal's percentile needs more requests than one run of a round has; it is judged on all requests of an arm together. The
effect, whose unit is the run, is then read on the mean of the same latency, and said so.
"""

from __future__ import annotations

from collections.abc import Sequence

from rooftune.compare.planning import requests_for_percentile
from rooftune.spec import Goal
from rooftune.store.run import Run


def run_goal(goal: Goal, requests_per_run: int) -> Goal:
    """The goal itself where one run can carry it, else the same bound on the mean."""
    stem, _, statistic = goal.metric.rpartition("_")
    if not statistic.startswith("p") or not statistic[1:].isdigit() or not stem:
        return goal
    if requests_per_run >= requests_for_percentile(float(statistic[1:])):
        return goal
    return Goal(metric=f"{stem}_mean", sign=goal.sign, target=goal.target, dimension=goal.dimension)


def run_goals(goals: Sequence[Goal], requests_per_run: int) -> list[Goal]:
    """Per-run goals, each metric once, in order."""
    found: dict[str, Goal] = {}
    for goal in goals:
        proxy = run_goal(goal, requests_per_run)
        found.setdefault(proxy.metric, proxy)
    return list(found.values())


def values(runs: Sequence[Run | None], metric: str) -> list[float | None]:
    """The metric of each run; None for a run that is missing or invalid."""
    found: list[float | None] = []
    for run in runs:
        reading = run.metric(metric) if run is not None and run.valid else None
        found.append(reading.value if reading is not None else None)
    return found
