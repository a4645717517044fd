"""What the output costs at the load that was offered, idle time included."""

from __future__ import annotations

from rooftune.metrics.contract import Metric, MetricContext
from rooftune.metrics.samples import duration_of, offered
from rooftune.store.run import MetricValue

_NAME = "cost_per_million_output_tokens"


def _cost(context: MetricContext) -> MetricValue:
    if context.price_per_second is None:
        return MetricValue(
            _NAME, None, "money", reason="no price is stated: name one, e.g. price: {amount: 0.10}"
        )
    tokens = 0
    for record in offered(context.records):
        if not record.succeeded:
            continue
        if record.output_tokens is None:
            return MetricValue(_NAME, None, "money", reason="the server did not tell its token counts")
        tokens += record.output_tokens
    if tokens == 0:
        return MetricValue(_NAME, None, "money", reason="no output token was answered")
    return MetricValue(_NAME, context.price_per_second * duration_of(context) / tokens * 1e6, "money")


METRICS = (
    Metric(
        _NAME,
        "money",
        "lower",
        "price of the run's duration / output tokens of answered requests, per million; failed output is paid, not counted",
        "a price and token counts",
        _cost,
    ),
)
