"""Diagnosis inside the loop: with experiments on the live baseline, and from the runs alone afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rooftune.diagnose.diagnose import Diagnosis, diagnose
from rooftune.diagnose.experiments.investigate import investigate
from rooftune.diagnose.time_split import time_split
from rooftune.loop.screen import merged
from rooftune.loop.trials import Arm
from rooftune.spec import Arrivals, Prompts, Workload
from rooftune.store.run import Run
from rooftune.workload.schedule import build_schedule

if TYPE_CHECKING:
    from rooftune.loop.optimize import Optimization

_EXPERIMENT_SECONDS = 40.0
_EXPERIMENTS = 2


class LoopBench:
    """A server of the loop as the experiments need it. Their runs are kept like all others."""

    def __init__(self, work: Optimization, run: Run, arm: Arm) -> None:
        self._work = work
        self._run = run
        self._arm = arm
        self._number = 0
        self.permissions = work.spec.permissions

    def burst(self, count: int, input_tokens: int, output_tokens: int, concurrency: int) -> Run:
        """``count`` requests with fresh prompts of these lengths, ``concurrency`` of them open at once."""
        workload = Workload(
            arrivals=Arrivals(process="concurrency", users=concurrency),
            prompts=Prompts(source="synthetic", input_tokens=input_tokens, output_tokens=output_tokens),
        )
        number = self._next()
        schedule = build_schedule(
            workload, requests=count, rate=None, seed=self._work.spec.workload.seed, salt=f"burst{number}"
        )
        return self._work.trials.run(self._arm, schedule, stage="experiment", number=number)

    def replay(self) -> Run | None:
        """The run's own load again with the same arrival times; None where its schedule is not at hand."""
        schedule = self._work.trials.schedule_of(self._run)
        if schedule is None:
            return None
        return self._work.trials.run(self._arm, schedule, stage="experiment", number=self._next())

    @contextmanager
    def restarted(self, change: Mapping[str, Any]) -> Iterator[LoopBench]:
        """The same server with other switches, in a process of its own."""
        other = LoopBench(
            self._work,
            self._run,
            Arm(f"{self._arm.name}-changed", merged(self._arm.configuration, dict(change))),
        )
        other._number = self._number + 100
        try:
            yield other
        finally:
            self._work.fleet.discard(other._arm.configuration)

    def _next(self) -> int:
        self._number += 1
        return self._number


def diagnose_live(work: Optimization, run: Run, arm: Arm) -> Diagnosis:
    """Investigate a run on its live server. The experiments' outcomes are kept; the judgement is made from them anew."""
    goals = work.spec.goals.bounds

    def experiments() -> dict[str, Any]:
        _, outcomes = investigate(
            run, LoopBench(work, run, arm), goals=goals, progress=work.progress,
            budget_seconds=min(_EXPERIMENT_SECONDS, 0.1 * work.spec.budget.time), most=_EXPERIMENTS,
        )  # fmt: skip
        return outcomes

    return diagnose(run, work.journal.once("diagnosis/baseline", experiments), goals)


def diagnose_runs(work: Optimization, runs: Sequence[Run]) -> Diagnosis:
    """From the run among these with the most requests answered; experiments are for the baseline."""
    return diagnose(max(runs, key=lambda run: len(run.records)), None, work.spec.goals.bounds)


def joined(runs: Sequence[Run]) -> Run:
    """Several runs of one configuration as one, for what reads steps and records without regard to the clock."""
    first = runs[0]
    return replace(
        first,
        records=tuple(record for run in runs for record in run.records),
        steps=tuple(step for run in runs for step in run.steps),
    )


def split(runs: Sequence[Run]) -> dict[str, Any]:
    """Where the time of an average step and of the first token goes, against the roof."""
    return time_split(joined(runs))
