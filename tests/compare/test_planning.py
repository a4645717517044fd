from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from rooftune.compare.planning import (
    minimum_detectable_effect,
    power,
    requests_for_percentile,
    requests_needed,
    rounds_needed,
)


def test_requests_for_percentiles() -> None:
    assert requests_for_percentile(95) == 59
    assert requests_for_percentile(99) == 299
    for percent in (50, 90, 95, 99):
        n, q = requests_for_percentile(percent), percent / 100
        assert 1 - q**n >= 0.95 > 1 - q ** (n - 1)


def test_the_most_demanding_metric_decides() -> None:
    assert requests_needed(["ttft_mean", "ttft_p99", "tpot_p95"]) == (299, "ttft_p99")
    assert requests_needed(["slo_attainment"], attainment=0.95) == (59, "slo_attainment")
    assert requests_needed(["output_tokens_per_second"])[0] == 20


@pytest.mark.parametrize(("rounds", "spread"), [(6, 0.1), (12, 0.05), (3, 0.1)])
def test_power_equals_simulation(rounds: int, spread: float) -> None:
    rng = np.random.default_rng(3)
    effect = 0.08
    samples = rng.normal(effect, spread, (20000, rounds))
    half = stats.t.ppf(0.975, rounds - 1) * samples.std(axis=1, ddof=1) / math.sqrt(rounds)
    assert power(effect, spread, rounds) == pytest.approx(np.mean(samples.mean(axis=1) - half > 0), abs=0.015)


@pytest.mark.parametrize("rounds", [2, 3, 6, 12, 40])
def test_the_minimum_detectable_effect_has_the_wanted_power(rounds: int) -> None:
    smallest = minimum_detectable_effect(rounds, 0.1)
    assert power(smallest, 0.1, rounds) >= 0.799
    if rounds > 2:
        assert power(0.95 * smallest, 0.1, rounds) < 0.8
    assert minimum_detectable_effect(rounds, 0.2) == pytest.approx(2 * smallest, rel=1e-3)


def test_five_percent_is_found_within_twelve_rounds_at_the_promised_spread() -> None:
    assert power(math.log(1.05), 0.038, 12) >= 0.9
    needed = rounds_needed(math.log(1.05), 0.038, wanted_power=0.9)
    assert needed is not None and needed <= 12
    assert rounds_needed(0.001, 0.2) is None
