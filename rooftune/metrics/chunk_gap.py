"""Gap between chunks as a reader sees them; stalls are read here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rooftune.metrics.contract import Metric, MetricContext
from rooftune.metrics.family import PERCENTILES
from rooftune.metrics.percentile import Clustered, clustered_percentile
from rooftune.metrics.samples import gap_sample, once
from rooftune.store.run import MetricValue

_DEFINITION = (
    "time between two chunks with text of one answer, however many tokens they hold, pooled over answers"
)
_NEEDS = "streamed answers of two chunks or more"


def _mean(context: MetricContext) -> MetricValue:
    gaps = gap_sample(context).gaps
    if gaps.size == 0:
        return MetricValue("chunk_gap_mean", None, "s", reason="no answer had two chunks")
    return MetricValue("chunk_gap_mean", float(gaps.mean()), "s")


def _at(statistic: str, share: float) -> Callable[[MetricContext], MetricValue]:
    def compute(context: MetricContext) -> MetricValue:
        sample = gap_sample(context)
        clustered = once(
            context,
            "chunk_gap",
            lambda: Clustered.of(sample.gaps, np.ones_like(sample.gaps), sample.clusters),
        )
        return clustered_percentile(f"chunk_gap_{statistic}", "s", clustered, share)

    return compute


def _maximum(context: MetricContext) -> MetricValue:
    gaps = gap_sample(context).gaps
    if gaps.size == 0:
        return MetricValue("chunk_gap_max", None, "s", reason="no answer had two chunks")
    return MetricValue("chunk_gap_max", float(gaps.max()), "s")


METRICS = (
    Metric("chunk_gap_mean", "s", "lower", f"Mean of: {_DEFINITION}", _NEEDS, _mean),
    *(
        Metric(f"chunk_gap_{s}", "s", "lower", f"{s} of: {_DEFINITION}", _NEEDS, _at(s, share))
        for s, share in PERCENTILES.items()
    ),
    Metric("chunk_gap_max", "s", "lower", f"Largest of: {_DEFINITION}", _NEEDS, _maximum),
)
