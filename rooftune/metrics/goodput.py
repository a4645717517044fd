"""Requests that meet every bound of the SLO. A failed request is a miss."""

from __future__ import annotations

from itertools import pairwise

from rooftune.metrics.contract import Metric, MetricContext
from rooftune.metrics.percentile import share_value
from rooftune.metrics.samples import duration_of, e2e_of, offered, once, token_chunks, tpot_of, ttft_of
from rooftune.store.records import RequestRecord
from rooftune.store.run import MetricValue

_NO_SLO = "no SLO is stated: name a bound per request, e.g. slo: {ttft: 400ms}"


def meets(record: RequestRecord, slo: dict[str, float]) -> bool:
    """Whether one request meets every bound (seconds).

    ttft, e2e: as the metrics. tpot: the request's own; an answer of one token has no further token to wait for and
    meets it. itl: every gap / k of the answer; where k is not known it is taken as 1, the stricter reading.
    """
    if not record.succeeded:
        return False
    for name, bound in slo.items():
        if name == "itl":
            chunks = token_chunks(record)
            for before, after in pairwise(chunks):
                if (after.arrival_ns - before.arrival_ns) / 1e9 / (after.tokens or 1) > bound:
                    return False
            continue
        if name == "tpot" and record.output_tokens == 1:
            continue
        value = {"ttft": ttft_of, "tpot": tpot_of, "e2e": e2e_of}[name](record)
        if value is None or value > bound:
            return False
    return True


def _good(context: MetricContext) -> int:
    return once(
        context, "good", lambda: sum(meets(record, context.slo) for record in offered(context.records))
    )


def _goodput(context: MetricContext) -> MetricValue:
    seconds = duration_of(context)
    if not context.slo:
        return MetricValue("goodput", None, "1/s", reason=_NO_SLO)
    if seconds <= 0:
        return MetricValue("goodput", None, "1/s", reason="the run has no duration")
    return MetricValue("goodput", _good(context) / seconds, "1/s")


def _attainment(context: MetricContext) -> MetricValue:
    if not context.slo:
        return MetricValue("slo_attainment", None, "share", reason=_NO_SLO)
    n = len(offered(context.records))
    return share_value("slo_attainment", _good(context), n, "no request was due")


METRICS = (
    Metric(
        "goodput",
        "1/s",
        "higher",
        "requests that meet every SLO bound / duration of the run; failures are misses",
        "an SLO",
        _goodput,
    ),
    Metric(
        "slo_attainment",
        "share",
        "higher",
        "requests that meet every SLO bound / offered requests; failures are misses",
        "an SLO",
        _attainment,
    ),
)
