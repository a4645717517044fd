"""The simulated engine with a planted cause: how often the diagnosis names it. Strengths and seeds were not tuned on."""

from __future__ import annotations

import pytest
from scipy import stats

from rooftune.diagnose.diagnose import diagnose
from rooftune.diagnose.experiments import investigate
from rooftune.diagnose.planted import PLANTED, draw

FIRST_SEED = 3000


def accuracy(seeds: range) -> tuple[int, int, list[str]]:
    right, wrong, told = 0, 0, []
    for cause in PLANTED:
        for seed in seeds:
            case = draw(cause, seed)
            diagnosis, _ = investigate(case.run(), case.bench)
            right += diagnosis.primary == cause
            if diagnosis.primary != cause:
                wrong += diagnosis.primary != "unknown"
                told.append(f"{cause}/{seed}: {diagnosis.primary}")
    return right, wrong, told


@pytest.mark.slow
def test_forty_two_planted_cases() -> None:
    """Fails only below the 95 % binomial quantile of an accuracy of 95 %."""
    cases = 7 * len(PLANTED)
    right, wrong, told = accuracy(range(FIRST_SEED, FIRST_SEED + 7))
    print(f"planted causes: {right} of {cases} right, {wrong} wrong, {cases - right - wrong} unknown; {told}")
    assert right >= stats.binom.ppf(0.025, cases, 0.95), told
    assert wrong <= stats.binom.ppf(0.975, cases, 0.02), told


@pytest.mark.parametrize("cause", sorted(PLANTED))
def test_each_cause_is_named(cause: str) -> None:
    case = draw(cause, FIRST_SEED + 50)
    diagnosis, outcomes = investigate(case.run(), case.bench)
    assert diagnosis.primary == cause, diagnosis.best_reading
    finding = diagnosis.finding(cause)
    assert finding is not None and finding.status == "supported"
    if cause != "healthy":
        sources = {e.rsplit("[", 1)[1] for e in finding.evidence if e.startswith("+")}
        assert len(sources) >= 2
    for outcome in outcomes.values():
        assert outcome["signature"], "an experiment must state its signature"


def test_the_run_alone_is_not_wrong() -> None:
    """Without experiments unknown is allowed, a wrong name is not."""
    for cause in PLANTED:
        for seed in range(FIRST_SEED + 60, FIRST_SEED + 62):
            assert diagnose(draw(cause, seed).run()).primary in (cause, "unknown")


def test_removing_the_fault_removes_the_finding() -> None:
    from dataclasses import replace

    case = draw("queue_slots", FIRST_SEED + 50)
    case.bench.config = replace(case.bench.config, slots=64, batching="continuous")
    assert diagnose(case.run()).primary != "queue_slots"
    case = draw("launch_overhead", FIRST_SEED + 50)
    case.bench.machine = replace(case.bench.machine, overhead=0.0)
    assert diagnose(case.run()).primary != "launch_overhead"
