"""The same run in another unit of time, or under other names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rooftune.store.records import RequestRecord
from rooftune.store.run import Run


def scaled(run: Run, factor: float) -> Run:
    def ns(value: int | None) -> int | None:
        return None if value is None else round(value * factor)

    def record(old: RequestRecord) -> RequestRecord:
        return replace(
            old,
            scheduled_ns=round(old.scheduled_ns * factor),
            sent_ns=ns(old.sent_ns),
            end_ns=ns(old.end_ns),
            chunks=[replace(c, arrival_ns=round(c.arrival_ns * factor)) for c in old.chunks],
            server_timings=None
            if old.server_timings is None
            else {k: v * factor for k, v in old.server_timings.items()},
        )

    roofs: dict[str, Any] | None = None
    if run.roofs is not None:
        roofs = {
            **run.roofs,
            "bandwidth": [
                {**p, "bytes_per_second": p["bytes_per_second"] / factor} for p in run.roofs["bandwidth"]
            ],
            "flops": {k: v / factor for k, v in run.roofs["flops"].items()},
        }
    times = ("seconds", "forward", "begin_ns")
    return replace(
        run,
        records=tuple(record(r) for r in run.records),
        steps=tuple({k: v * factor if k in times else v for k, v in s.items()} for s in run.steps),
        series=tuple(replace(s, times_ns=tuple(round(t * factor) for t in s.times_ns)) for s in run.series),
        slo={k: v * factor for k, v in run.slo.items()},
        roofs=roofs,
        begin_ns=round(run.begin_ns * factor),
        end_ns=round(run.end_ns * factor),
    )


def renamed(run: Run) -> Run:
    return replace(
        run,
        id="zzz",
        label="something else",
        target={"model": "m-9f3", "runtime": "r-2", "url": "http://127.0.0.1:1"},
        environment={"cpu": "no name"},
        roofs=None if run.roofs is None else {**run.roofs, "cpu": "x", "isa": "y"},
    )
