"""What is kept of one request: raw events only. Every metric is a pure function of these."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

ChunkKind = Literal["role", "content", "reasoning", "tool", "usage", "done", "error"]
CountSource = Literal["usage", "tokenizer", "chunks", "asked"]


@dataclass(slots=True)
class ChunkRecord:
    """One server-sent event. Times are monotonic nanoseconds, stamped before any parsing.

    ``earliest_ns`` is set when several events came in one read: the true arrival lies between it (the previous
    read) and ``arrival_ns``. ``tokens`` is None where the number of tokens in the chunk is not known.
    """

    arrival_ns: int
    kind: ChunkKind
    bytes: int
    tokens: int | None = None
    earliest_ns: int | None = None


@dataclass(slots=True)
class RequestRecord:
    """One request, from its place in the schedule to its end. Missing values are None, never 0.

    scheduled_ns is the schedule's time (open loop), or end of the previous answer + think time (closed loop);
    latencies count from it. ``error`` is an error class in one word (connect, timeout, status_429, stream, body…).
    """

    index: int
    scheduled_ns: int
    sent_ns: int | None = None
    end_ns: int | None = None
    status: int | None = None
    error: str | None = None
    error_detail: str | None = None
    chunks: list[ChunkRecord] = field(default_factory=list)
    session: int | None = None
    prompt_tokens: int | None = None
    prompt_tokens_source: CountSource | None = None
    output_tokens: int | None = None
    output_tokens_source: CountSource | None = None
    asked_output_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    server_timings: dict[str, float] | None = None
    """Seconds as told by the server: queue, prefill, decode."""
    text: str | None = None

    @property
    def succeeded(self) -> bool:
        """Answered to the end, with at least one token."""
        return (
            self.error is None
            and self.end_ns is not None
            and any(c.kind in ("content", "reasoning", "tool") for c in self.chunks)
        )

    @property
    def first_token_ns(self) -> int | None:
        """Arrival of the first reasoning or content (or tool-call) chunk; the empty role chunk does not count."""
        return next((c.arrival_ns for c in self.chunks if c.kind in ("content", "reasoning", "tool")), None)

    @property
    def last_token_ns(self) -> int | None:
        return next(
            (c.arrival_ns for c in reversed(self.chunks) if c.kind in ("content", "reasoning", "tool")), None
        )
