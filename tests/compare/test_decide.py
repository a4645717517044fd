"""Decisions: their rules one by one, and by simulation that no technique is both accepted and rejected."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rooftune.compare.decide import confirm, deciding_goal, screen
from rooftune.compare.effect import Effect, measure_effect
from rooftune.spec.goal import Goal, parse_goal_expression

TTFT = parse_goal_expression("ttft_p95<=400ms")
TPOT = parse_goal_expression("tpot_p95<=40ms")


def effect_of(metric: str, ratios: list[float]) -> Effect:
    return measure_effect(metric, [1.0] * len(ratios), ratios)


GOOD = effect_of("ttft_p95", [0.60, 0.62, 0.61, 0.63, 0.60, 0.62])
NEUTRAL = effect_of("ttft_p95", [1.001, 0.999, 1.002, 0.998, 1.0, 1.001])
BAD = effect_of("ttft_p95", [1.3, 1.31, 1.29, 1.3, 1.32, 1.3])
NOISY = effect_of("ttft_p95", [0.7, 1.2, 0.8, 1.1, 0.75, 1.0])


def decide(effect: Effect, **more: object) -> str:
    return confirm(TTFT, {"ttft_p95": effect}, (TTFT,), quality_passed=True, **more).decision  # type: ignore[arg-type]


def test_the_four_plain_cases() -> None:
    assert decide(GOOD) == "accepted"
    assert decide(NEUTRAL) == "rejected"
    assert decide(BAD) == "rejected"
    undecided = confirm(TTFT, {"ttft_p95": NOISY}, (TTFT,), quality_passed=True)
    assert undecided.decision == "inconclusive" and undecided.more_rounds and undecided.more_rounds > 0
    assert "more rounds would decide" in undecided.reason


def test_higher_is_better_turns_the_sides() -> None:
    goal = parse_goal_expression("goodput>=2/s")
    up = effect_of("goodput", [1.5, 1.52, 1.49, 1.5, 1.51, 1.5])
    down = effect_of("goodput", [0.5, 0.52, 0.49, 0.5, 0.51, 0.5])
    assert confirm(goal, {"goodput": up}, quality_passed=True).decision == "accepted"
    assert confirm(goal, {"goodput": down}, quality_passed=True).decision == "rejected"


def test_never_accepted_below_six_rounds() -> None:
    few = effect_of("ttft_p95", [0.5, 0.5001, 0.5002, 0.5, 0.5])
    outcome = confirm(TTFT, {"ttft_p95": few}, quality_passed=True)
    assert outcome.decision == "inconclusive" and outcome.more_rounds == 1


def test_quality_vetoes_and_must_be_measured_unless_lossless() -> None:
    effects = {"ttft_p95": GOOD}
    assert confirm(TTFT, effects, quality_passed=False, quality_reason="KL 0.4").decision == "rejected"
    assert confirm(TTFT, effects, quality_passed=None).decision == "inconclusive"
    assert confirm(TTFT, effects, quality_passed=None, lossless=True).decision == "accepted"


def test_another_goal_that_got_clearly_worse_rejects_unless_still_met() -> None:
    effects = {"ttft_p95": GOOD, "tpot_p95": effect_of("tpot_p95", [1.5, 1.51, 1.49, 1.5, 1.52, 1.5])}
    outcome = confirm(TTFT, effects, (TTFT, TPOT), quality_passed=True)
    assert outcome.decision == "rejected" and "tpot_p95 got worse" in outcome.reason
    kept = confirm(TTFT, effects, (TTFT, TPOT), quality_passed=True, still_met={"tpot_p95": True})
    assert kept.decision == "accepted"


def test_missing_measurement_is_inconclusive() -> None:
    assert confirm(TTFT, {}, quality_passed=True).decision == "inconclusive"


def test_screen_reads_but_does_not_claim() -> None:
    assert screen(effect_of("ttft_p95", [0.7, 0.75]), TTFT, (0.1, 8)).decision == "promising"
    assert screen(effect_of("ttft_p95", [1.5, 1.4]), TTFT, (0.1, 8)).decision == "futile"
    assert screen(effect_of("ttft_p95", [1.0, 1.01]), TTFT, (0.1, 8)).decision == "unclear"
    assert screen(effect_of("ttft_p95", [1.5, 1.4]), TTFT).decision == "unclear"
    assert screen(effect_of("ttft_p95", [0.5]), TTFT, (0.1, 8)).decision == "unclear"


def test_the_deciding_goal_is_the_one_missed_most() -> None:
    goals = (TTFT, TPOT)
    assert deciding_goal(goals, {"ttft_p95": 0.5, "tpot_p95": 0.4}) == TPOT
    assert deciding_goal(goals, {"ttft_p95": 4.0, "tpot_p95": 0.04}) == TTFT
    assert deciding_goal(goals, {"ttft_p95": None, "tpot_p95": 0.01}) == TPOT
    assert deciding_goal(goals, {}) is None


@pytest.mark.parametrize("noise", [0.05, 0.10, 0.15])
@pytest.mark.parametrize("true_change", [0.0, 0.02, 0.05, 0.2, 0.5])
@pytest.mark.parametrize("rounds", [6, 12])
def test_no_technique_is_both_accepted_and_rejected(noise: float, true_change: float, rounds: int) -> None:
    """Screen with 2 rounds, confirm with fresh ones; the true effect is a latency that falls by ``true_change``.

    At most 2.5 % of runs may take the minority decision (and accept where there is no effect); allowed above it is the 99.9 %
    binomial quantile of the simulation itself.
    """
    rng = np.random.default_rng(int(noise * 1000) + int(true_change * 100) + rounds)
    trials = 500
    accepted = rejected = 0
    for _ in range(trials):
        logs = math.log(1.0 - true_change) + rng.normal(0.0, noise, 2 + rounds)
        deviation = noise * math.sqrt(rng.chisquare(8) / 8)
        first = screen(effect_of("ttft_p95", np.exp(logs[:2]).tolist()), TTFT, (deviation, 8))
        if first.decision == "futile":
            rejected += 1
            continue
        decision = decide(effect_of("ttft_p95", np.exp(logs[2:]).tolist()))
        accepted += decision == "accepted"
        rejected += decision == "rejected"
    # Rejection has two occasions (screen and confirm), acceptance one.
    assert min(accepted, rejected / 2) <= _binomial_limit(trials, 0.025)
    if true_change <= 0.02:
        assert accepted <= _binomial_limit(trials, 0.025)
    if true_change == 0.5:
        assert accepted > 0.95 * trials


def _binomial_limit(trials: int, rate: float) -> int:
    from scipy import stats

    return int(stats.binom.ppf(0.999, trials, rate))


@pytest.mark.parametrize("harm", [0.0, 0.03, 0.08, 0.15, 0.3])
def test_a_borderline_side_effect_does_not_flip_the_decision(harm: float) -> None:
    """A clear gain with a harm on another goal: accepted in some runs and rejected in others in at most 10 % of one kind."""
    rng = np.random.default_rng(int(harm * 100))
    trials = 400
    counts = {"accepted": 0, "rejected": 0, "inconclusive": 0}
    for _ in range(trials):
        effects = {
            "ttft_p95": effect_of("ttft_p95", np.exp(-0.5 + rng.normal(0, 0.05, 6)).tolist()),
            "tpot_p95": effect_of("tpot_p95", np.exp(math.log1p(harm) + rng.normal(0, 0.08, 6)).tolist()),
        }
        counts[confirm(TTFT, effects, (TTFT, TPOT), quality_passed=True).decision] += 1
    assert min(counts["accepted"], counts["rejected"]) <= 0.10 * trials
    if harm == 0.0:
        assert counts["accepted"] >= 0.8 * trials and counts["rejected"] <= 0.02 * trials


def test_goals_are_pure_data() -> None:
    assert Goal("ttft_p95", "<=", 0.4, "time").met(0.4)
