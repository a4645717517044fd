"""Choose the next experiment, run it, judge again; stop when a cause is supported by experiment or nothing is left."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rooftune.diagnose.diagnose import Diagnosis, diagnose
from rooftune.diagnose.experiments.contract import Bench, Experiment
from rooftune.diagnose.experiments.decoding import BATCH, CONTEXT
from rooftune.diagnose.experiments.first_token import LOW_LOAD, PREFILL, SLOTS
from rooftune.diagnose.facts import Facts
from rooftune.progress import Progress, Silent
from rooftune.spec.goal import Goal
from rooftune.store.run import Run

_CHEAP_FIRST = (LOW_LOAD, BATCH, PREFILL, CONTEXT, SLOTS)
"""By cost: seconds for the first four, a restart and a replay for the last."""


def choose(diagnosis: Diagnosis, done: Mapping[str, Any], bench: Bench, facts: Facts) -> Experiment | None:
    """The cheapest experiment that separates the leading candidate from another open one, or confirms the leader.

    None when the primary cause is already confirmed by an experiment, or nothing more can separate.
    """
    leader = diagnosis.finding(diagnosis.primary) if diagnosis.primary not in (None, "unknown") else None
    if leader is not None and leader.cause == "healthy":
        return None
    if leader is not None and any("[experiment" in e and e.startswith("+") for e in leader.evidence):
        return None
    open_causes = {
        f.cause: f.share or 0.0
        for f in diagnosis.findings
        if f.status != "refuted" and f.cause not in ("healthy", "unknown")
    }
    if not open_causes:
        return None
    possible = [e for e in _CHEAP_FIRST if e.name not in done and e.refused(bench, facts) is None]

    def worth(experiment: Experiment) -> float:
        shares = [open_causes[c] for c in experiment.separates if c in open_causes]
        first = 1.0 if leader is not None and leader.cause in experiment.separates else 0.0
        return sum(shares) + first

    useful = [e for e in possible if worth(e) > 0.0]
    # A stable order: the first of the cheapest wins a tie.
    return max(useful, key=worth, default=None)


def investigate(
    run: Run,
    bench: Bench,
    *,
    goals: Sequence[Goal] = (),
    progress: Progress | None = None,
    budget_seconds: float = 150.0,
    most: int = 4,
) -> tuple[Diagnosis, dict[str, dict[str, Any]]]:
    """Diagnose a run and settle it by experiments. Returns the diagnosis and the outcomes by name."""
    say = (progress or Silent()).say
    outcomes: dict[str, dict[str, Any]] = {}
    diagnosis = diagnose(run, outcomes, goals)
    say(f"first reading: {diagnosis.best_reading}")
    begin = time.monotonic()
    while len(outcomes) < most and diagnosis.facts is not None:
        if time.monotonic() - begin > budget_seconds:
            say("the time for experiments is spent")
            break
        experiment = choose(diagnosis, outcomes, bench, diagnosis.facts)
        if experiment is None:
            break
        expected = "; ".join(f"{cause}: {text}" for cause, text in experiment.signature.items())
        say(f"experiment {experiment.name}: {experiment.title}. Expected if {expected}")
        outcome = experiment.perform(bench, run, diagnosis.facts)
        outcomes[experiment.name] = outcome.to_json()
        if outcome.failed is not None:
            say(f"  could not be read: {outcome.failed}")
            continue
        said = ", ".join(f"{side} {cause}" for cause, side in outcome.reading.items() if side != "neither")
        say(f"  observed: {outcome.statement}. Speaks {said or 'for none of them'}")
        diagnosis = diagnose(run, outcomes, goals)
    say(f"reading: {diagnosis.best_reading}")
    return diagnosis, outcomes
