"""A Rooftune server seen through its HTTP endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooftune.runtimes.contract import Observation
from rooftune.runtimes.http import HttpBase
from rooftune.store.ledger import LedgerEntry


class HttpServer:
    """Implements ``Server`` over ``/rooftune/*``; ``stop`` does nothing, as this one was not started here."""

    def __init__(
        self, url: str, model: str, headers: Mapping[str, str] | None = None, started_by_us: bool = False
    ) -> None:
        self.url = url
        self.model = model
        self.headers = dict(headers or {})
        """To be sent with every request (API key); never printed."""
        self.started_by_us = started_by_us
        self._http = HttpBase(url, self.headers)

    def resolved(self) -> dict[str, Any] | None:
        return dict(self._http.get_json("/rooftune/config"))

    def observe(self) -> Observation:
        raw = self._http.get_json("/rooftune/stats")
        return Observation(raw["time_ns"], raw["counters"], raw["gauges"])

    def ledger(self, before: Observation, after: Observation) -> tuple[LedgerEntry, ...]:
        raw = self._http.get_json("/rooftune/techniques")["techniques"]
        return tuple(entry_between(entry, before, after) for entry in raw)

    def steps(self, since_ns: int) -> tuple[dict[str, float], ...]:
        return tuple(self._http.get_json(f"/rooftune/steps?since_ns={since_ns}")["steps"])

    def reset_prefix_cache(self) -> bool | None:
        return bool(self._http.post_json("/reset_prefix_cache")["cleared"])

    def healthy(self) -> bool:
        """Whether the server says that steps are being made."""
        return self._http.get("/health").status == 200

    def stop(self) -> None:
        pass


def entry_between(entry: Mapping[str, Any], before: Observation, after: Observation) -> LedgerEntry:
    """The server's entry, which counts from its start, narrowed to what moved between two observations.

    A switch that was on only outside of the run counts as not seen on; evidence that is a level (threads, pages)
    does not move and is taken as it is.
    """
    counter = str(entry["counter"]["name"])
    active: bool | None = entry["active"]
    reason = str(entry["reason"])
    moved: float | None = None
    if counter in after.counters:
        moved = after.counters[counter] - before.counters.get(counter, 0.0)
        if moved > 0:
            active = True
        elif active:
            active = None
            reason = (
                f"not seen on in this run: {counter} did not move (since the start of the server: {reason})"
            )
    return LedgerEntry(str(entry["name"]), entry["requested"], active, reason, counter, moved)
