"""Requests and tokens per second over the whole run, first scheduled time to last end, ramp and drain included."""

from __future__ import annotations

from collections.abc import Callable

from rooftune.metrics.contract import Metric, MetricContext
from rooftune.metrics.samples import duration_of, offered
from rooftune.store.records import RequestRecord
from rooftune.store.run import MetricValue

Count = Callable[[RequestRecord], int | None]


def _input(record: RequestRecord) -> int | None:
    return record.prompt_tokens


def _output(record: RequestRecord) -> int | None:
    return record.output_tokens


def _total(record: RequestRecord) -> int | None:
    if record.prompt_tokens is None or record.output_tokens is None:
        return None
    return record.prompt_tokens + record.output_tokens


def _requests(context: MetricContext) -> MetricValue:
    seconds = duration_of(context)
    if seconds <= 0:
        return MetricValue("requests_per_second", None, "1/s", reason="the run has no duration")
    done = sum(record.succeeded for record in offered(context.records))
    return MetricValue("requests_per_second", done / seconds, "1/s")


def _tokens(name: str, count: Count) -> Callable[[MetricContext], MetricValue]:
    def compute(context: MetricContext) -> MetricValue:
        seconds = duration_of(context)
        if seconds <= 0:
            return MetricValue(name, None, "tokens/s", reason="the run has no duration")
        total = 0
        for record in offered(context.records):
            if not record.succeeded:
                continue
            tokens = count(record)
            if tokens is None:
                return MetricValue(name, None, "tokens/s", reason="the server did not tell its token counts")
            total += tokens
        return MetricValue(name, total / seconds, "tokens/s")

    return compute


METRICS = (
    Metric(
        "requests_per_second",
        "1/s",
        "higher",
        "answered requests / duration of the run",
        "requests",
        _requests,
    ),
    *(
        Metric(
            name,
            "tokens/s",
            "higher",
            f"{what} of answered requests / duration of the run",
            "token counts",
            c,
        )
        for name, what, c in (
            ("input_tokens_per_second", "prompt tokens", _tokens("input_tokens_per_second", _input)),
            ("output_tokens_per_second", "output tokens", _tokens("output_tokens_per_second", _output)),
            (
                "total_tokens_per_second",
                "prompt and output tokens",
                _tokens("total_tokens_per_second", _total),
            ),
        )
    ),
)
