"""Records and runs as JSON values and back. Times stay whole nanoseconds; missing stays null."""

from __future__ import annotations

import dataclasses
from typing import Any

from rooftune.store.ledger import LedgerEntry
from rooftune.store.records import ChunkKind, ChunkRecord, RequestRecord
from rooftune.store.run import Gate, MetricValue, Run, Series

_KINDS: tuple[ChunkKind, ...] = ("role", "content", "reasoning", "tool", "usage", "done", "error")
_LETTER: dict[ChunkKind, str] = dict(zip(_KINDS, "rctfude", strict=True))
_KIND: dict[str, ChunkKind] = {letter: kind for kind, letter in _LETTER.items()}
_PLAIN = tuple(f.name for f in dataclasses.fields(RequestRecord) if f.name != "chunks")


def record_to_json(record: RequestRecord) -> dict[str, Any]:
    """A compact form: fields that are None are left out, chunks become columns (arrivals relative to scheduled_ns)."""
    values = {name: value for name in _PLAIN if (value := getattr(record, name)) is not None}
    if record.chunks:
        base = record.scheduled_ns
        values["chunks"] = {
            "at": [chunk.arrival_ns - base for chunk in record.chunks],
            "kind": "".join(_LETTER[chunk.kind] for chunk in record.chunks),
            "bytes": [chunk.bytes for chunk in record.chunks],
            "tokens": [chunk.tokens for chunk in record.chunks],
            "earliest": [
                None if chunk.earliest_ns is None else chunk.earliest_ns - base for chunk in record.chunks
            ],
        }
    return values


def record_from_json(values: dict[str, Any]) -> RequestRecord:
    """Inverse of `record_to_json`. Raises KeyError, TypeError or ValueError for what it did not write."""
    plain = {name: value for name, value in values.items() if name != "chunks"}
    record = RequestRecord(**plain)
    columns = values.get("chunks")
    if columns is not None:
        base = record.scheduled_ns
        rows = zip(
            columns["at"],
            columns["kind"],
            columns["bytes"],
            columns["tokens"],
            columns["earliest"],
            strict=True,
        )
        record.chunks = [
            ChunkRecord(base + at, _KIND[kind], size, tokens, None if earliest is None else base + earliest)
            for at, kind, size, tokens, earliest in rows
        ]
    return record


def run_to_json(run: Run) -> dict[str, Any]:
    """Everything but the records."""
    values = {
        f.name: getattr(run, f.name)
        for f in dataclasses.fields(Run)
        if f.name not in ("records", "ledger", "series", "gates", "metrics", "steps")
    }
    return {
        **values,
        "ledger": [entry.to_json() for entry in run.ledger],
        "series": [
            {"name": s.name, "unit": s.unit, "times_ns": list(s.times_ns), "values": list(s.values)}
            for s in run.series
        ],
        "steps": list(run.steps),
        "gates": [dataclasses.asdict(gate) for gate in run.gates],
        "metrics": [dataclasses.asdict(metric) for metric in run.metrics],
    }


def run_from_json(values: dict[str, Any], records: tuple[RequestRecord, ...]) -> Run:
    """Inverse of `run_to_json`."""
    return Run(
        **{
            **values,
            "records": records,
            "ledger": tuple(LedgerEntry(**entry) for entry in values["ledger"]),
            "series": tuple(
                Series(s["name"], s["unit"], tuple(s["times_ns"]), tuple(s["values"]))
                for s in values["series"]
            ),
            "steps": tuple(values["steps"]),
            "gates": tuple(Gate(**gate) for gate in values["gates"]),
            "metrics": tuple(MetricValue(**metric) for metric in values["metrics"]),
        }
    )
