"""Screening nominates, confirming decides: on made runs whose true effects are known."""

from __future__ import annotations

from typing import Any

import pytest

from rooftune.loop import confirm as confirming
from rooftune.loop.screen import screen_all
from rooftune.loop.trials import Arm
from tests.loop.fake_trials import TTFT, FakeTrials, candidate, screened

BASE: dict[str, Any] = {"batching": "dynamic", "slots": 4, "prefix_cache": "none", "threads": 2}
CONTINUOUS = {"batching": "continuous"}
CACHE = {"prefix_cache": "hash"}


def screening(trials: FakeTrials, names: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found, _ = screen_all(
        trials, Arm("baseline", BASE), [candidate(n, c) for n, c in names.items()], TTFT, [],
        stage="screen1", rounds=2, requests=10, rate=1.0, expected_seconds=1.0,
    )  # fmt: skip
    return {one.candidate.card.name: one for one in found}


def confirmation(trials: FakeTrials, stack: list[Any], rounds: int = 6) -> confirming.Confirmation:
    made = confirming.Confirmation.begin(BASE, stack, {**BASE, "slots": 16})
    confirming.run_rounds(
        trials, made, rounds=rounds, starts=3, requests=10, rate=1.0, expected_seconds=1.0,
        fresh_start=lambda: None, affordable=lambda number: True,
    )  # fmt: skip
    confirming.decide(made, stack, TTFT, [], None)
    return made


def test_a_large_gain_is_promising_and_a_large_harm_futile() -> None:
    trials = FakeTrials({("batching", "continuous"): 0.4, ("threads", 1): 1.9}, noise=0.05, seed=1)
    found = screening(trials, {"continuous_batching": CONTINUOUS, "thread_placement": {"threads": 1}})
    assert found["continuous_batching"].promising
    assert found["thread_placement"].decision.decision == "futile"
    assert not found["thread_placement"].promising


def test_every_arm_runs_once_a_round() -> None:
    trials = FakeTrials({}, noise=0.05, seed=1)
    screening(trials, {"continuous_batching": CONTINUOUS, "prefix_caching": CACHE})
    for number in (0, 1):
        assert sorted(a for _, n, a in trials.ran if n == number) == [
            "baseline",
            "continuous_batching",
            "prefix_caching",
        ]


def test_a_server_that_does_not_start_fails_its_technique_only() -> None:
    trials = FakeTrials({("batching", "continuous"): 0.4}, noise=0.05, seed=1, broken={"prefix_caching"})
    found = screening(trials, {"continuous_batching": CONTINUOUS, "prefix_caching": CACHE})
    assert found["prefix_caching"].failed == "the server did not start: no memory"
    assert found["continuous_batching"].promising


def test_a_change_that_did_not_reach_the_server_is_no_technique() -> None:
    trials = FakeTrials({}, noise=0.05, seed=1)
    original = trials.run

    def ignoring(arm: Arm, *args: Any, **named: Any) -> Any:
        return original(Arm(arm.name, BASE), *args, **named)

    trials.run = ignoring  # type: ignore[method-assign]
    found = screening(trials, {"continuous_batching": CONTINUOUS})
    assert found["continuous_batching"].noop is not None
    assert not found["continuous_batching"].promising


def test_both_of_a_stack_are_accepted_when_both_pay() -> None:
    trials = FakeTrials({("batching", "continuous"): 0.5, ("prefix_cache", "hash"): 0.6}, noise=0.04, seed=2)
    made = confirmation(
        trials, [screened("continuous_batching", CONTINUOUS), screened("prefix_caching", CACHE)]
    )
    assert {n: d.decision for n, d in made.decisions.items()} == {
        "continuous_batching": "accepted",
        "prefix_caching": "accepted",
    }
    assert made.final.configuration == {**BASE, **CONTINUOUS, **CACHE}
    assert made.taken_out == []


def test_what_does_not_pay_is_taken_out_and_its_arm_becomes_the_final_one() -> None:
    trials = FakeTrials({("batching", "continuous"): 0.5, ("prefix_cache", "hash"): 1.1}, noise=0.02, seed=3)
    made = confirmation(
        trials, [screened("continuous_batching", CONTINUOUS), screened("prefix_caching", CACHE)]
    )
    assert made.taken_out == ["prefix_caching"]
    assert made.final.configuration == {**BASE, **CONTINUOUS}
    assert made.final_runs is made.runs["without-prefix_caching"]
    assert made.decisions["continuous_batching"].decision == "accepted"
    assert made.decisions["prefix_caching"].decision == "rejected"


def test_fewer_than_six_rounds_accept_nothing() -> None:
    trials = FakeTrials({("batching", "continuous"): 0.5}, noise=0.02, seed=4)
    made = confirmation(trials, [screened("continuous_batching", CONTINUOUS)], rounds=5)
    assert made.decisions["continuous_batching"].decision == "inconclusive"


@pytest.mark.parametrize("true_effect", [1.0, 0.97, 0.9, 0.6])
def test_no_technique_is_both_accepted_and_rejected_over_runs(true_effect: float) -> None:
    outcomes = []
    for seed in range(60):
        trials = FakeTrials({("batching", "continuous"): true_effect}, noise=0.08, seed=seed)
        made = confirmation(trials, [screened("continuous_batching", CONTINUOUS)])
        outcomes.append(made.decisions["continuous_batching"].decision)
    # Each false side happens in at most 2.5 % of runs: 5 of 60 lie beyond its 97.5 % binomial quantile.
    assert min(outcomes.count("accepted"), outcomes.count("rejected")) <= 5
    if true_effect == 0.6:
        assert outcomes.count("accepted") >= 58
