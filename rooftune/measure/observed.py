"""What a measurement asks of a server object: the part of a runtime's Server that it uses, by shape alone."""

from __future__ import annotations

from typing import Any, Protocol

from rooftune.store.ledger import LedgerEntry


class Seen(Protocol):
    """One observation: counters only grow, gauges are now."""

    @property
    def time_ns(self) -> int: ...

    @property
    def counters(self) -> dict[str, float]: ...

    @property
    def gauges(self) -> dict[str, float]: ...


class ObservedServer(Protocol):
    def resolved(self) -> dict[str, Any] | None: ...

    def observe(self) -> Any:
        """A `Seen`."""
        ...

    def ledger(self, before: Any, after: Any) -> tuple[LedgerEntry, ...]: ...

    def steps(self, since_ns: int) -> tuple[dict[str, float], ...]: ...
