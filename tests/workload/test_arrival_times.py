"""Arrivals are what they are called."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rooftune.workload.arrivals import closed_loop, constant, dispersion, poisson


def test_constant_rate_is_absolute_and_does_not_drift() -> None:
    offsets = constant(1001, 3.0)
    assert offsets[0] == 0 and offsets[3] == 1_000_000_000
    assert offsets[999] == 333_000_000_000


@pytest.mark.parametrize("window", [1.0, 5.0, 20.0])
def test_poisson_counts_scatter_as_poisson_counts_at_short_and_long_windows(window: float) -> None:
    """Variance / mean of the counts × (windows − 1) is chi-square; a wrong process fails at some window."""
    offsets = poisson(40_000, 10.0, np.random.default_rng(3))
    windows = int(offsets[-1] / 1e9 // window)
    low, high = stats.chi2.ppf([0.005, 0.995], windows - 1) / (windows - 1)
    assert low < dispersion(offsets, window) < high
    assert dispersion(constant(4000, 10.0), window) < 0.2


def test_poisson_gaps_are_exponential_with_the_asked_mean() -> None:
    gaps = np.diff(poisson(20_000, 4.0, np.random.default_rng(7))) / 1e9
    assert stats.kstest(gaps, stats.expon(scale=0.25).cdf).pvalue > 0.01


def test_poisson_length_is_not_rescaled() -> None:
    ends = [poisson(50, 10.0, np.random.default_rng(seed))[-1] for seed in range(200)]
    # The sum of 50 exponential gaps has a coefficient of variation of 1 / sqrt(50).
    assert np.std(ends) / np.mean(ends) == pytest.approx(1 / np.sqrt(50), rel=0.2)


@given(st.integers(1, 200), st.floats(0.1, 1000), st.integers(0, 2**32))
def test_offsets_never_go_back(requests: int, rate: float, seed: int) -> None:
    for offsets in (
        constant(requests, rate),
        poisson(requests, rate, np.random.default_rng(seed)),
        closed_loop(requests),
    ):
        assert len(offsets) == requests
        assert all(a <= b for a, b in pairwise(offsets)) and offsets[0] >= 0
