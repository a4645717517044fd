"""How late our own client sent: part of every latency, and a validity gate."""

from rooftune.metrics.family import request_family
from rooftune.store.records import RequestRecord


def send_lag_of(record: RequestRecord) -> float | None:
    return None if record.sent_ns is None else (record.sent_ns - record.scheduled_ns) / 1e9


METRICS = request_family(
    "send_lag",
    "scheduled time to the moment the request was written to the socket",
    "requests sent",
    send_lag_of,
)
