"""Time that counts against a service: request latencies, stated bounds, and where the lost time went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rooftune.spec.goal import Goal
from rooftune.store.records import RequestRecord
from rooftune.store.run import Run

ATTAINMENT = 0.95
"""Share of requests within their bounds that counts as meeting them where no goal says otherwise."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Where the time that counts against the service goes, as shares of it; they sum to 1.

    With bounds, only what lies above a missed bound counts, in proportion of the phases that bound covers; without bounds all
    of a request's time counts.
    """

    queue: float
    prefill: float
    rest: float
    decode: float
    basis: str


def ttft_of(record: RequestRecord) -> float | None:
    first = record.first_token_ns
    return None if first is None else (first - record.scheduled_ns) * 1e-9


def tpot_of(record: RequestRecord) -> float | None:
    first, last, tokens = record.first_token_ns, record.last_token_ns, record.output_tokens
    if first is None or last is None or tokens is None or tokens < 2:
        return None
    return (last - first) * 1e-9 / (tokens - 1)


def e2e_of(record: RequestRecord) -> float | None:
    last = record.last_token_ns
    return None if last is None else (last - record.scheduled_ns) * 1e-9


def timing_mean(records: Sequence[RequestRecord], name: str) -> float | None:
    known = [r.server_timings[name] for r in records if r.server_timings and name in r.server_timings]
    return float(np.mean(known)) if known and len(known) >= 0.5 * len(records) else None


def mean_of(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return float(np.mean(known)) if known else None


def stated_bounds(
    run: Run, good: Sequence[RequestRecord], goals: Sequence[Goal]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Stated bounds and those that are missed: goals by the run's metrics, else the SLO by its attainment."""
    stated, missed = [], []
    for goal in goals:
        metric = run.metric(goal.metric)
        stated.append(str(goal))
        if metric is not None and metric.value is not None and not goal.met(metric.value):
            missed.append(str(goal))
    for name, limit in run.slo.items():
        stated.append(f"{name} <= {limit:.4g} s for {ATTAINMENT:.0%} of requests")
        values = [v for r in good if (v := _value(r, name)) is not None]
        within = sum(v <= limit for v in values)
        failures = len(run.records) - len(good)
        if values and within < ATTAINMENT * (len(values) + failures):
            missed.append(f"{name} <= {limit:.4g} s: held by {within / (len(values) + failures):.0%}")
    return tuple(stated), tuple(missed)


def _value(record: RequestRecord, name: str) -> float | None:
    return {"ttft": ttft_of, "tpot": tpot_of, "itl": tpot_of, "e2e": e2e_of}[name](record)


def _limits(run: Run, goals: Sequence[Goal]) -> dict[str, float]:
    """Bound per request by phase: the SLO, tightened by latency goals."""
    limits = dict(run.slo)
    for goal in goals:
        name = goal.metric.split("_", 1)[0]
        if name in ("ttft", "tpot", "itl", "e2e") and goal.dimension == "time":
            limits[name] = min(limits.get(name, goal.target), goal.target)
    return limits


def lost_time(
    run: Run, good: Sequence[RequestRecord], goals: Sequence[Goal], little: float | None
) -> Lost | None:
    limits = _limits(run, goals)
    excess = limits and any(
        (v := _value(r, n)) is not None and v > m for r in good for n, m in limits.items()
    )
    sums = dict.fromkeys(("queue", "prefill", "rest", "decode"), 0.0)
    for record in good:
        ttft, e2e = ttft_of(record), e2e_of(record)
        if ttft is None or e2e is None:
            continue
        timings = record.server_timings or {}
        queue = min(ttft, timings.get("queue", little if little is not None else 0.0))
        prefill = min(ttft - queue, timings["prefill"]) if "prefill" in timings else ttft - queue
        decode = e2e - ttft
        early = decodes = 1.0
        if excess:
            tokens = max(1, (record.output_tokens or 2) - 1)
            late = max(
                max(0.0, ttft - limits["ttft"]) if "ttft" in limits else 0.0,
                max(0.0, e2e - limits["e2e"]) * ttft / e2e if "e2e" in limits and e2e > 0 else 0.0,
            )
            per_token = min(limits.get("tpot", np.inf), limits.get("itl", np.inf))
            slow = max(
                max(0.0, decode - per_token * tokens) if np.isfinite(per_token) else 0.0,
                max(0.0, e2e - limits["e2e"]) * decode / e2e if "e2e" in limits and e2e > 0 else 0.0,
            )
            early = late / ttft if ttft > 0 else 0.0
            decodes = slow / decode if decode > 0 else 0.0
        # What the queue takes is lost first: it is the part of TTFT that no request needs.
        if excess:
            late_seconds = early * ttft
            from_queue = min(queue, late_seconds)
            left = late_seconds - from_queue
            service = ttft - queue
            sums["queue"] += from_queue
            sums["prefill"] += left * (prefill / service if service > 0 else 0.0)
            sums["rest"] += left * (1.0 - prefill / service if service > 0 else 0.0)
        else:
            sums["queue"] += queue
            sums["prefill"] += prefill
            sums["rest"] += ttft - queue - prefill
        sums["decode"] += decodes * decode
    total = sum(sums.values())
    if total <= 0:
        return None
    basis = "time above the stated bounds" if excess else "all of the requests' time"
    return Lost(**{k: v / total for k, v in sums.items()}, basis=basis)
