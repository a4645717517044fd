"""The statistics that every latency family has: mean, p50, p90, p95, p99."""

from __future__ import annotations

from collections.abc import Callable

from rooftune.metrics.contract import Metric, MetricContext
from rooftune.metrics.percentile import mean_value, percentile_value
from rooftune.metrics.samples import request_sample
from rooftune.store.records import RequestRecord
from rooftune.store.run import MetricValue

PERCENTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}


def request_family(
    name: str, definition: str, needs: str, value: Callable[[RequestRecord], float | None]
) -> tuple[Metric, ...]:
    """Metrics over one value per request. Percentiles rank failed requests as slower than every answer."""

    def mean(context: MetricContext) -> MetricValue:
        sample = request_sample(context, name, value)
        return mean_value(f"{name}_mean", "s", sample.ordered, sample.failed)

    def at(statistic: str, share: float) -> Callable[[MetricContext], MetricValue]:
        def compute(context: MetricContext) -> MetricValue:
            sample = request_sample(context, name, value)
            return percentile_value(f"{name}_{statistic}", "s", sample.ordered, share, sample.failed)

        return compute

    return (
        Metric(f"{name}_mean", "s", "lower", f"Mean of: {definition}", needs, mean),
        *(
            Metric(
                f"{name}_{statistic}", "s", "lower", f"{statistic} of: {definition}", needs, at(statistic, q)
            )
            for statistic, q in PERCENTILES.items()
        ),
    )
