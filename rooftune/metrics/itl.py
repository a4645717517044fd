"""Inter-token latency: gap / k with weight k for a chunk of k tokens, only where k is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rooftune.metrics.contract import Metric, MetricContext
from rooftune.metrics.family import PERCENTILES
from rooftune.metrics.percentile import Clustered, clustered_percentile
from rooftune.metrics.samples import GapSample, gap_sample, once
from rooftune.store.run import MetricValue

_DEFINITION = (
    "gap before a chunk of k tokens divided by k, with weight k, pooled over answers; only where k is known"
)
_NEEDS = "streamed answers whose tokens per chunk are known"


def _known(context: MetricContext, name: str) -> tuple[GapSample, MetricValue | None]:
    sample = gap_sample(context)
    known = sample.tokens > 0
    if sample.gaps.size and not known.any():
        reason = "the server does not tell how many tokens a chunk holds; see chunk_gap and tpot"
        return sample, MetricValue(name, None, "s", reason=reason)
    _, clusters = np.unique(sample.clusters[known], return_inverse=True)
    return GapSample(sample.gaps[known], sample.tokens[known], clusters.astype(np.int64)), None


def _mean(context: MetricContext) -> MetricValue:
    sample, refusal = _known(context, "itl_mean")
    if refusal is not None:
        return refusal
    if sample.gaps.size == 0:
        return MetricValue("itl_mean", None, "s", reason="no answer had two chunks")
    return MetricValue("itl_mean", float(sample.gaps.sum() / sample.tokens.sum()), "s")


def _at(statistic: str, share: float) -> Callable[[MetricContext], MetricValue]:
    def compute(context: MetricContext) -> MetricValue:
        name = f"itl_{statistic}"
        sample, refusal = _known(context, name)
        if refusal is not None:
            return refusal
        clustered = once(
            context,
            "itl",
            lambda: Clustered.of(sample.gaps / sample.tokens, sample.tokens, sample.clusters),
        )
        return clustered_percentile(name, "s", clustered, share)

    return compute


METRICS = (
    Metric("itl_mean", "s", "lower", f"Mean of: {_DEFINITION}", _NEEDS, _mean),
    *(
        Metric(
            f"itl_{statistic}", "s", "lower", f"{statistic} of: {_DEFINITION}", _NEEDS, _at(statistic, share)
        )
        for statistic, share in PERCENTILES.items()
    ),
)
