"""What the connection keeps of an answer while the run goes on: stamped bytes, not yet understood."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class RawAnswer:
    """One request's bytes. ``reads``: (arrival, arrival of the read before, body bytes), monotonic nanoseconds.

    Parsing events and JSON waits until the run is over, so that it cannot delay the stamp of anyone's next read.
    """

    index: int
    scheduled_ns: int
    sent_ns: int | None = None
    end_ns: int | None = None
    status: int | None = None
    content_type: str = ""
    error: str | None = None
    error_detail: str | None = None
    reads: list[tuple[int, int, bytes]] = field(default_factory=list)
    last_ns: int = 0
    """Arrival of the read before (or the time of sending)."""
    size: int = 0
