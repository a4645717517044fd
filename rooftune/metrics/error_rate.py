"""Share of requests that failed."""

from __future__ import annotations

from rooftune.metrics.contract import Metric, MetricContext
from rooftune.metrics.percentile import share_value
from rooftune.metrics.samples import offered
from rooftune.store.run import MetricValue


def _error_rate(context: MetricContext) -> MetricValue:
    records = offered(context.records)
    failed = sum(not record.succeeded for record in records)
    return share_value("error_rate", failed, len(records), "no request was due")


METRICS = (
    Metric(
        "error_rate",
        "share",
        "lower",
        "share of offered requests that were not answered to the end with at least one token",
        "requests",
        _error_rate,
    ),
)
