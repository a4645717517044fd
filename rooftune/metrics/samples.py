"""Per-request values that the metric families share, computed once per context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rooftune.metrics.contract import MetricContext
from rooftune.metrics.percentile import Values
from rooftune.store.records import ChunkRecord, RequestRecord

_TOKEN_KINDS = frozenset(("content", "reasoning", "tool"))

T = TypeVar("T")

_last: tuple[MetricContext, dict[str, object]] | None = None
"""The samples of the context in work; released by `forget` so that no run is kept alive."""


def once(context: MetricContext, name: str, make: Callable[[], T]) -> T:
    """``make()``, computed once per context."""
    global _last
    if _last is None or _last[0] is not context:
        _last = (context, {})
    kept = _last[1]
    if name not in kept:
        kept[name] = make()
    return kept[name]  # type: ignore[return-value]


def forget() -> None:
    global _last
    _last = None


def offered(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    """Requests that count: all that were due, without those cut off because the run itself was stopped."""
    return [record for record in records if record.error != "interrupted"]


def token_chunks(record: RequestRecord) -> list[ChunkRecord]:
    return [chunk for chunk in record.chunks if chunk.kind in _TOKEN_KINDS]


def ttft_of(record: RequestRecord) -> float | None:
    """Seconds from the scheduled time to the first token."""
    first = record.first_token_ns
    return None if first is None else (first - record.scheduled_ns) / 1e9


def e2e_of(record: RequestRecord) -> float | None:
    """Seconds from the scheduled time to the end of the answer."""
    return None if record.end_ns is None else (record.end_ns - record.scheduled_ns) / 1e9


def tpot_of(record: RequestRecord) -> float | None:
    """(last − first token) / (n − 1); None for fewer than two tokens."""
    first, last, n = record.first_token_ns, record.last_token_ns, record.output_tokens
    if first is None or last is None or n is None or n < 2:
        return None
    return (last - first) / 1e9 / (n - 1)


@dataclass(frozen=True, slots=True)
class RequestSample:
    """Sorted values of the successes, and how many offered requests failed."""

    ordered: Values
    failed: int


def request_sample(
    context: MetricContext, name: str, value: Callable[[RequestRecord], float | None]
) -> RequestSample:
    def make() -> RequestSample:
        records = offered(context.records)
        good = [record for record in records if record.succeeded]
        values = [v for v in map(value, good) if v is not None]
        return RequestSample(np.sort(np.asarray(values, dtype=np.float64)), len(records) - len(good))

    return once(context, name, make)


@dataclass(frozen=True, slots=True)
class GapSample:
    """Gaps between token chunks of successful answers, in seconds; ``tokens`` is NaN where it is not known."""

    gaps: Values
    tokens: Values
    clusters: NDArray[np.int64]


def gap_sample(context: MetricContext) -> GapSample:
    def make() -> GapSample:
        times: list[int] = []
        tokens: list[int | None] = []
        lengths: list[int] = []
        for record in offered(context.records):
            if not record.succeeded:
                continue
            chunks = [chunk for chunk in record.chunks if chunk.kind in _TOKEN_KINDS]
            times += [chunk.arrival_ns for chunk in chunks]
            tokens += [chunk.tokens for chunk in chunks]
            lengths.append(len(chunks))
        # All chunks in one row: a difference is a gap where both ends belong to the same request.
        owner = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
        inside = owner[1:] == owner[:-1]
        gaps = np.diff(np.asarray(times, dtype=np.int64))[inside] / 1e9
        known = np.asarray(tokens, dtype=np.float64)[1:][inside]
        _, clusters = np.unique(owner[1:][inside], return_inverse=True)
        return GapSample(gaps, known, clusters.astype(np.int64))

    return once(context, "gaps", make)


def duration_of(context: MetricContext) -> float:
    """Seconds of the run's window: from the start of the schedule to the end of the last answer."""
    return (context.end_ns - context.begin_ns) / 1e9
