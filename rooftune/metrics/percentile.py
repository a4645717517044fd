"""Percentiles that say how sure they are: order-statistic bounds, and a refusal below the sample they need."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from rooftune.store.run import MetricValue

CONFIDENCE = 0.95
"""Of each bound by itself: the true percentile lies above ``low``, and below ``high``, each with this confidence."""

Values = NDArray[np.float64]


def minimum_sample(share: float) -> int:
    """Smallest sample whose largest value bounds the percentile from above with 95 % confidence.

    1 − share^n ≥ 0.95 (Wilks 1941): p50 5, p90 29, p95 59, p99 299.
    """
    return math.ceil(math.log(1.0 - CONFIDENCE) / math.log(share))


def order_bounds(n: int, share: float) -> tuple[int | None, int | None]:
    """Indices (from 0, into the sorted sample) of the one-sided lower and upper 95 % bounds of a percentile.

    The number of values at or below the true percentile is binomial(n, share), whatever the distribution
    (David and Nagaraja, Order Statistics, 7.1). None where the sample is too small for a bound.
    """
    if n == 0:
        return None, None
    spread = 6.0 * math.sqrt(n * share * (1.0 - share)) + 6.0
    ranks = np.arange(max(1, math.floor(n * share - spread)), min(n, math.ceil(n * share + spread)) + 1)
    below = bdtr(ranks - 1, n, share)
    upper = ranks[below >= CONFIDENCE]
    lower = ranks[below <= 1.0 - CONFIDENCE]
    return (int(lower[-1]) - 1 if lower.size else None, int(upper[0]) - 1 if upper.size else None)


def quantile(ordered: Values, share: float) -> float:
    """Linear interpolation between order statistics (Hyndman and Fan type 7). ``ordered`` may end in infinities."""
    position = share * (ordered.size - 1)
    left = math.floor(position)
    fraction = position - left
    if fraction == 0.0:
        return float(ordered[left])
    right = float(ordered[left + 1])
    return right if math.isinf(right) else float(ordered[left]) * (1.0 - fraction) + right * fraction


def percentile_value(name: str, unit: str, ordered: Values, share: float, failed: int) -> MetricValue:
    """A percentile over all offered requests; ``failed`` ones rank as slower than every answer."""
    n = ordered.size + failed
    if ordered.size == 0:
        return MetricValue(name, None, unit, reason="no request gave a value")
    needed = minimum_sample(share)
    if n < needed:
        return MetricValue(
            name,
            None,
            unit,
            reason=f"{n} values; p{share * 100:g} needs at least {needed}, send more requests",
        )
    ranked = np.concatenate([ordered, np.full(failed, np.inf)]) if failed else ordered
    value = quantile(ranked, share)
    if math.isinf(value):
        return MetricValue(
            name, None, unit, reason=f"{failed} of {n} requests failed: p{share * 100:g} lies among them"
        )
    low, high = order_bounds(n, share)
    note = f"{failed} failed requests ranked as slower than every answer" if failed else None
    return MetricValue(
        name,
        value,
        unit,
        low=None if low is None else min(float(ranked[low]), value),
        high=None if high is None or math.isinf(ranked[high]) else max(float(ranked[high]), value),
        reason=note,
    )


def mean_value(name: str, unit: str, ordered: Values, failed: int) -> MetricValue:
    """The mean over answered requests, with its normal 95 % interval from 10 values on."""
    if ordered.size == 0:
        return MetricValue(name, None, unit, reason="no request gave a value")
    mean = float(ordered.mean())
    note = f"over answers only; {failed} requests failed" if failed else None
    if ordered.size < 10:
        return MetricValue(name, mean, unit, reason=note)
    half = 1.96 * float(ordered.std(ddof=1)) / math.sqrt(ordered.size)
    return MetricValue(name, mean, unit, mean - half, mean + half, note)


@dataclass(frozen=True, slots=True)
class Clustered:
    """Weighted values that come in clusters (the gaps of one request are not independent), sorted once."""

    ordered: Values
    weights: Values
    cumulated: Values
    clusters: NDArray[np.int64]
    count: int
    """Clusters."""

    @classmethod
    def of(cls, values: Values, weights: Values, clusters: NDArray[np.int64]) -> Clustered:
        """``clusters`` numbers each value's cluster from 0."""
        order = np.argsort(values, kind="stable")
        count = int(clusters.max()) + 1 if clusters.size else 0
        sorted_weights = weights[order]
        return cls(values[order], sorted_weights, np.cumsum(sorted_weights), clusters[order], count)


def clustered_percentile(name: str, unit: str, sample: Clustered, share: float) -> MetricValue:
    """A weighted percentile of clustered values.

    The bounds invert the estimated distribution at share ± 1.645 standard errors, the error taken between
    clusters (Woodruff 1952, with the linearised variance of a ratio).
    """
    n = sample.ordered.size
    if n == 0:
        return MetricValue(name, None, unit, reason="no request gave a value")
    needed = minimum_sample(share)
    if n < needed:
        return MetricValue(
            name,
            None,
            unit,
            reason=f"{n} values; p{share * 100:g} needs at least {needed}, send more requests",
        )
    total = float(sample.cumulated[-1])

    def at(level: float) -> float:
        return float(sample.ordered[min(int(np.searchsorted(sample.cumulated, level * total)), n - 1)])

    value = at(share)
    if sample.count < 2:
        return MetricValue(name, value, unit, reason="one request only: no bound")
    within = int(np.searchsorted(sample.ordered, value, side="right"))
    below = np.bincount(sample.clusters[:within], weights=sample.weights[:within], minlength=sample.count)
    whole = np.bincount(sample.clusters, weights=sample.weights, minlength=sample.count)
    excess = below - share * whole
    error = math.sqrt(float((excess**2).sum()) * sample.count / (sample.count - 1)) / total
    low = at(max(0.0, share - 1.645 * error))
    high = at(share + 1.645 * error) if share + 1.645 * error <= 1.0 else None
    return MetricValue(name, value, unit, min(low, value), None if high is None else max(high, value))


def share_value(name: str, good: int, n: int, none_reason: str) -> MetricValue:
    """A share with its Wilson 95 % interval (Wilson 1927)."""
    if n == 0:
        return MetricValue(name, None, "share", reason=none_reason)
    z = 1.959964
    p = good / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return MetricValue(name, p, "share", min(p, max(0.0, middle - half)), max(p, min(1.0, middle + half)))
