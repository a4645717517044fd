"""Every metric by name, and all of them at once."""

from __future__ import annotations

from rooftune.metrics import (
    chunk_gap,
    cost,
    e2e,
    error_rate,
    goodput,
    itl,
    mbu,
    mfu,
    send_lag,
    throughput,
    tpot,
    ttft,
)
from rooftune.metrics.contract import Metric, MetricContext
from rooftune.metrics.samples import forget
from rooftune.store.run import MetricValue

METRICS: dict[str, Metric] = {
    metric.name: metric
    for family in (
        ttft,
        tpot,
        itl,
        chunk_gap,
        e2e,
        throughput,
        goodput,
        error_rate,
        send_lag,
        mfu,
        mbu,
        cost,
    )
    for metric in family.METRICS
}


def compute_all(context: MetricContext) -> tuple[MetricValue, ...]:
    """Every metric of the registry, in its order; what cannot be computed is None with its reason."""
    try:
        return tuple(metric.compute(context) for metric in METRICS.values())
    finally:
        forget()


def compute(name: str, context: MetricContext) -> MetricValue:
    """One metric by name. Raises KeyError for an unknown name."""
    try:
        return METRICS[name].compute(context)
    finally:
        forget()
