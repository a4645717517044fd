"""Several runs read as one: percentiles over all their requests, rates over the sum of their durations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rooftune.metrics.contract import MetricContext
from rooftune.store.records import RequestRecord
from rooftune.store.run import Run


def context_of(run: Run) -> MetricContext:
    """What the metrics of one run are computed from."""
    model: Any = (run.resolved or {}).get("model")
    return MetricContext(
        records=run.records,
        begin_ns=run.begin_ns,
        end_ns=run.end_ns,
        slo=run.slo,
        price_per_second=run.price_per_second,
        model=model if isinstance(model, dict) else None,
        roofs=run.roofs,
        steps=run.steps,
    )


def pooled(contexts: Sequence[MetricContext]) -> MetricContext:
    """One context over several runs of the same configuration and SLO.

    Latencies use differences within a request only, so the records are joined as they are; the window's length is
    the sum of the runs' lengths. Raises ValueError for runs under different SLO or price, whose pool has no meaning.
    """
    if not contexts:
        raise ValueError("nothing to pool")
    first = contexts[0]
    for other in contexts[1:]:
        if other.slo != first.slo or other.price_per_second != first.price_per_second:
            raise ValueError("runs under different SLO or price cannot be pooled")
    records: list[RequestRecord] = []
    steps: list[dict[str, float]] = []
    for context in contexts:
        records.extend(context.records)
        steps.extend(context.steps)
    length = sum(context.end_ns - context.begin_ns for context in contexts)
    return MetricContext(
        records=records,
        begin_ns=0,
        end_ns=length,
        slo=first.slo,
        price_per_second=first.price_per_second,
        model=first.model if all(context.model == first.model for context in contexts) else None,
        roofs=first.roofs,
        steps=steps,
    )
