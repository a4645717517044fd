"""A Run: everything that was measured once. Immutable; everything later is computed from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rooftune.store.ledger import LedgerEntry
from rooftune.store.records import RequestRecord


@dataclass(frozen=True, slots=True)
class Gate:
    """One validity check: its value against its limit. ``ok`` None means that it could not be judged (reason says why)."""

    name: str
    ok: bool | None
    value: float | None
    limit: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One metric of a run. ``value`` None carries its ``reason``; low and high bound it (95 %) where that is defined."""

    name: str
    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """One telemetry signal: times in monotonic nanoseconds and values in the named unit."""

    name: str
    unit: str
    times_ns: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement of one configuration under one schedule."""

    id: str
    label: str
    started_at: str
    target: dict[str, Any]
    """url, model, runtime name and version."""
    workload: dict[str, Any]
    schedule_hash: str
    slo: dict[str, float]
    price_per_second: float | None
    currency: str | None
    environment: dict[str, Any]
    roofs: dict[str, Any] | None
    resolved: dict[str, Any] | None
    """The runtime's own account of its configuration (`/rooftune/config`), or None where it gives none."""
    ledger: tuple[LedgerEntry, ...]
    records: tuple[RequestRecord, ...]
    begin_ns: int
    end_ns: int
    counters: dict[str, float] = field(default_factory=dict)
    """By how much each of the server's counters rose during the run, in Rooftune's vocabulary."""
    series: tuple[Series, ...] = ()
    steps: tuple[dict[str, float], ...] = ()
    """The engine's step log where there is one: begin_ns, seconds, prefill_tokens, decode_rows, context_tokens, waiting, running."""
    gates: tuple[Gate, ...] = ()
    metrics: tuple[MetricValue, ...] = ()
    complete: bool = True
    incomplete_reason: str | None = None

    @property
    def valid(self) -> bool:
        return self.complete and all(gate.ok is not False for gate in self.gates)

    def metric(self, name: str) -> MetricValue | None:
        return next((m for m in self.metrics if m.name == name), None)
