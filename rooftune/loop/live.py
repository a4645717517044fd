"""Diagnosis inside the loop: with experiments on the live baseline, and from the runs alone afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rooftune.diagnose.diagnose import Diagnosis, diagnose
from rooftune.diagnose.experiments.investigate import investigate
from rooftune.diagnose.server_bench import ServerBench
from rooftune.diagnose.time_split import time_split
from rooftune.loop.trials import Arm, derived_seed
from rooftune.store.run import Run

if TYPE_CHECKING:
    from rooftune.loop.optimize import Optimization

_EXPERIMENT_SECONDS = 40.0
_EXPERIMENTS = 2


def diagnose_live(work: Optimization, run: Run, arm: Arm) -> Diagnosis:
    """Investigate a run on its live server. The experiments' outcomes are kept; the judgement is made from them anew."""
    goals = work.spec.goals.bounds

    def experiments() -> dict[str, Any]:
        commanded = ServerBench(
            work.fleet.server(arm.configuration),
            permissions=work.spec.permissions,
            schedule=work.trials.schedule_of(run),
            runtime=work.runtime,
            configuration=arm.configuration,
            slo=run.slo,
            roofs=work.roofs,
            seed=derived_seed(work.spec.workload.seed, "experiment"),
            keep=work.trials.keep,
        )
        _, outcomes = investigate(
            run, commanded, goals=goals, progress=work.progress,
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
