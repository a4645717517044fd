"""Intervals and p values of paired rounds: against slow references, and by simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rooftune.compare.effect import (
    gain,
    measure_effect,
    paired_effect,
    pooled_spread,
    sign_flip_p_value,
)

values = st.lists(st.floats(0.01, 100.0), min_size=2, max_size=8)


@given(values, st.data())
def test_interval_equals_the_textbook_t_interval(before: list[float], data: st.DataObject) -> None:
    after = data.draw(st.lists(st.floats(0.01, 100.0), min_size=len(before), max_size=len(before)))
    logs = [math.log(a / b) for a, b in zip(after, before, strict=True)]
    interval = paired_effect(before, after)
    error = np.std(logs, ddof=1) / math.sqrt(len(logs))
    half = stats.t.ppf(0.975, len(logs) - 1) * error
    assert interval.value == pytest.approx(math.exp(np.mean(logs)), rel=1e-9)
    assert interval.low == pytest.approx(math.exp(np.mean(logs) - half), rel=1e-9)
    assert interval.high == pytest.approx(math.exp(np.mean(logs) + half), rel=1e-9)


@given(values, st.floats(0.001, 1000.0))
def test_scaling_both_arms_changes_nothing(before: list[float], factor: float) -> None:
    after = before[::-1]
    one = paired_effect(before, after)
    other = paired_effect([b * factor for b in before], [a * factor for a in after])
    assert other.low == pytest.approx(one.low) and other.high == pytest.approx(one.high)


@given(st.lists(st.integers(-300, 300).map(lambda n: n / 100), min_size=1, max_size=7))
def test_sign_flip_equals_enumeration(per_round: list[float]) -> None:
    observed = abs(sum(per_round))
    sums = [
        abs(sum(s * v for s, v in zip(signs, per_round, strict=True)))
        for signs in itertools.product((-1, 1), repeat=len(per_round))
    ]
    expected = np.mean([s >= observed - 1e-9 for s in sums])
    assert sign_flip_p_value(per_round) == pytest.approx(expected, abs=1e-12)


def test_six_agreeing_rounds_reach_the_smallest_p() -> None:
    assert sign_flip_p_value([0.1, 0.2, 0.1, 0.3, 0.2, 0.1]) == pytest.approx(2 / 64)


def test_a_zero_has_no_log_ratio_and_says_so() -> None:
    effect = measure_effect("goodput", [0.0, 1.0], [2.0, 3.0])
    assert effect.scale == "relative difference" and effect.reason is not None and "0" in effect.reason
    with pytest.raises(ValueError, match="above 0"):
        paired_effect([0.0, 1.0], [1.0, 1.0])


def test_missing_rounds_are_left_out_in_pairs_and_told() -> None:
    effect = measure_effect("ttft_p95", [1.0, None, 1.0, 1.0], [2.0, 2.0, None, 2.0])
    assert effect.rounds == 2 and effect.reason == "2 of 4 rounds have no value"
    assert effect.interval is not None and effect.interval.value == pytest.approx(2.0)
    assert measure_effect("ttft_p95", [None], [1.0]).interval is None


def test_shares_are_compared_as_differences() -> None:
    effect = measure_effect("slo_attainment", [0.0, 0.1, 0.0], [1.0, 1.0, 0.9])
    assert effect.scale == "difference" and effect.interval is not None
    assert effect.interval.value == pytest.approx((1.0 + 0.9 + 0.9) / 3)


def test_gain_turns_the_sign_of_latencies() -> None:
    effect = measure_effect("ttft_p50", [1.0, 1.0, 1.1], [0.5, 0.5, 0.5])
    assert gain(effect, "<=").low > 0 > gain(effect, ">=").high


def test_pooled_spread_weighs_by_degrees_of_freedom() -> None:
    rng = np.random.default_rng(1)
    effects = [
        measure_effect("ttft_p50", np.exp(rng.normal(0, 0.1, n)).tolist(), [1.0] * n) for n in (2, 2, 3, 40)
    ]
    pooled = pooled_spread(effects)
    assert pooled is not None and pooled[1] == 1 + 1 + 2 + 39
    assert pooled[0] == pytest.approx(0.1, rel=0.35)
    assert pooled_spread([]) is None


def _noise(kind: str, rng: np.random.Generator, trials: int, rounds: int) -> np.ndarray:
    """Log noise of both runs of each round [trials, rounds, 2], in the order of time, before arms are assigned."""
    runs = rounds * 2
    if kind == "normal":
        raw = rng.normal(size=(trials, runs))
    elif kind == "heavy":
        raw = rng.standard_t(2.5, size=(trials, runs))
    elif kind == "contaminated":
        raw = rng.normal(size=(trials, runs)) * np.where(rng.random((trials, runs)) < 0.1, 6.0, 1.0)
    elif kind == "lognormal":
        raw = np.exp(rng.normal(size=(trials, runs)))
    else:
        raw = np.empty((trials, runs))
        raw[:, 0] = rng.normal(size=trials)
        for i in range(1, runs):
            raw[:, i] = 0.7 * raw[:, i - 1] + math.sqrt(1 - 0.49) * rng.normal(size=trials)
    return 0.1 * raw.reshape(trials, rounds, 2)


@pytest.mark.parametrize("rounds", [6, 8, 12])
@pytest.mark.parametrize("kind", ["normal", "heavy", "contaminated", "lognormal", "autocorrelated"])
def test_coverage_is_at_least_nominal_minus_two_points(kind: str, rounds: int) -> None:
    """The order within a round is drawn at random, so slow drift and skew cancel; false alarms are its complement (A/A)."""
    rng = np.random.default_rng(rounds * 31 + len(kind))
    trials = 4000
    noise = _noise(kind, rng, trials, rounds)
    swap = rng.random((trials, rounds)) < 0.5
    before = np.where(swap, noise[..., 1], noise[..., 0])
    after = np.where(swap, noise[..., 0], noise[..., 1])
    differences = after - before
    half = stats.t.ppf(0.975, rounds - 1) * differences.std(axis=1, ddof=1) / math.sqrt(rounds)
    covered = float(np.mean(np.abs(differences.mean(axis=1)) <= half))
    assert covered >= 0.93
    # The function itself on a sample of them says the same as the vectorised form.
    for i in range(0, trials, 400):
        interval = paired_effect(np.exp(before[i]).tolist(), np.exp(after[i]).tolist())
        assert (interval.low <= 1.0 <= interval.high) == bool(abs(differences[i].mean()) <= half[i])
