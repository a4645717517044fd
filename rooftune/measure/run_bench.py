"""One measurement from a schedule and a target to a Run: warm-up, load, telemetry, gates, metrics."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from rooftune.errors import EnvironmentProblem, RooftuneError
from rooftune.measure.client.decode import TextPolicy
from rooftune.measure.client.load import LoadResult, run_load
from rooftune.measure.environment import environment
from rooftune.measure.gates import GateInput, judge
from rooftune.measure.observed import ObservedServer
from rooftune.measure.others import OtherLoad
from rooftune.measure.target import Target, resolve_target
from rooftune.measure.telemetry import Telemetry
from rooftune.metrics.contract import MetricContext
from rooftune.metrics.registry import compute_all
from rooftune.progress import Progress, Silent
from rooftune.spec import Price
from rooftune.store.ledger import LedgerEntry
from rooftune.store.run import MetricValue, Run
from rooftune.workload.schedule import Schedule, warmup_schedule

__all__ = ["Target", "bench"]

WARMUP_REQUESTS = 2


def bench(
    target: Target,
    schedule: Schedule,
    *,
    slo: dict[str, float] | None = None,
    price: Price | None = None,
    server: ObservedServer | None = None,
    roofs: Any = None,
    label: str = "bench",
    progress: Progress | None = None,
    text: TextPolicy = "hash",
    percentiles: Sequence[str] = (),
    warmup: Schedule | int = WARMUP_REQUESTS,
    maximum_seconds: float | None = None,
) -> Run:
    """Measure a target under a schedule.

    slo: bounds per request in seconds. server: the runtime's object for the same server, for counters, step log and
    ledger. roofs: `rooftune.hardware.roofs.Roofs` of the *server's* device (or its JSON), None where it is not known.
    percentiles: those that goals ask for ("p95"), judged by the sample gate. warmup: a schedule, or how many requests
    of the same kind with other prompts to send before; they are not in the records.

    A run that was interrupted is returned with ``complete`` False. Raises EnvironmentProblem where the server cannot
    be reached; WrongInput where the target cannot be asked so.
    """
    show = progress or Silent()
    target = _with_server_headers(target, server)
    target = target if target.resolved else resolve_target(target)
    _warm(target, schedule, warmup)
    before = server.observe() if server is not None else None
    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    around = environment()
    show.begin(f"{label}: {len(schedule.entries)} requests", schedule.duration or maximum_seconds)
    try:
        with Telemetry(server) as telemetry, OtherLoad(getattr(server, "pid", None)) as others:
            load = run_load(
                target, schedule, text=text, maximum_seconds=maximum_seconds, advance=show.advance
            )
    finally:
        show.end()
    counters, ledger, steps, resolved, trouble = _ask_server(server, before, load)
    if telemetry.missed:
        trouble.append(f"{telemetry.missed} observations of the server were not answered")
    series = telemetry.series()
    slo = dict(slo or {})
    roofs_json = roofs.to_json() if hasattr(roofs, "to_json") else roofs
    model = (resolved or {}).get("model")
    metrics = compute_all(
        MetricContext(
            records=load.records,
            begin_ns=load.begin_ns,
            end_ns=load.end_ns,
            slo=slo,
            price_per_second=None if price is None else price.per_second,
            model=model if isinstance(model, dict) else None,
            roofs=roofs_json,
            steps=steps,
        )
    )
    gates = judge(
        GateInput(
            schedule=schedule,
            load=load,
            percentiles=percentiles,
            steal=telemetry.steal,
            others=others.share,
            counters=counters,
            series=series,
            ignore_eos=target.ignore_eos,
        )
    )
    return Run(
        id=f"{started[:19].replace(':', '').replace('-', '')}-{uuid.uuid4().hex[:6]}",
        label=label,
        started_at=started,
        target=target.describe(),
        workload=schedule.describe(),
        schedule_hash=schedule.hash,
        slo=slo,
        price_per_second=None if price is None else price.per_second,
        currency=None if price is None else price.currency,
        environment={**around, "client": _client(load), "trouble": trouble},
        roofs=roofs_json,
        resolved=resolved,
        ledger=ledger,
        records=tuple(load.records),
        begin_ns=load.begin_ns,
        end_ns=load.end_ns,
        counters=counters,
        series=series,
        steps=steps,
        gates=gates,
        metrics=_in_currency(metrics, price),
        complete=not load.interrupted,
        incomplete_reason=_incomplete(load, schedule),
    )


def _with_server_headers(target: Target, server: ObservedServer | None) -> Target:
    """What the runtime must send with every request (a key) goes with the load too; header values are never kept."""
    known = {name.lower() for name, _ in target.headers}
    more = {} if target.api_key_env else dict(getattr(server, "headers", None) or {})
    added = tuple((str(name), str(value)) for name, value in more.items() if str(name).lower() not in known)
    return replace(target, headers=(*target.headers, *added)) if added else target


def _warm(target: Target, schedule: Schedule, warmup: Schedule | int) -> None:
    """Send the warm-up and wait for it. Raises EnvironmentProblem when none of it is answered."""
    if isinstance(warmup, int):
        if warmup == 0 or not schedule.entries:
            return
        warmup = warmup_schedule(schedule, warmup)
    outcome = run_load(target, warmup, text="off")
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.records and all(record.error == "connect" for record in outcome.records):
        detail = outcome.records[0].error_detail
        raise EnvironmentProblem(f"{target.describe()['url']} does not answer: {detail}")


def _ask_server(
    server: ObservedServer | None, before: Any, load: LoadResult
) -> tuple[
    dict[str, float],
    tuple[LedgerEntry, ...],
    tuple[dict[str, float], ...],
    dict[str, Any] | None,
    list[str],
]:
    """Counters, ledger, steps, resolved configuration. A server that died meanwhile leaves the records standing."""
    if server is None:
        return {}, (), (), None, []
    try:
        after = server.observe()
        counters = {
            name: value - before.counters[name]
            for name, value in after.counters.items()
            if name in before.counters
        }
        steps = tuple(step for step in server.steps(load.begin_ns) if step["begin_ns"] <= load.end_ns)
        return counters, server.ledger(before, after), steps, server.resolved(), []
    except (RooftuneError, OSError) as problem:
        return {}, (), (), None, [f"the server could not be asked after the run: {problem}"]


def _client(load: LoadResult) -> dict[str, Any]:
    """How the client itself fared."""
    chunks = shared = 0
    for record in load.records:
        for chunk in record.chunks:
            if chunk.kind in ("content", "reasoning", "tool"):
                chunks += 1
                shared += chunk.earliest_ns is not None
    return {
        "cpu_share": load.cpu_share,
        "longest_stall": load.stall,
        "connections": load.connections,
        "decoded_during_run": load.decoded_early,
        "chunks": chunks,
        "chunks_sharing_a_read": shared / chunks if chunks else None,
    }


def _in_currency(metrics: tuple[MetricValue, ...], price: Price | None) -> tuple[MetricValue, ...]:
    if price is None:
        return metrics
    return tuple(
        MetricValue(m.name, m.value, price.currency, m.low, m.high, m.reason) if m.unit == "money" else m
        for m in metrics
    )


def _incomplete(load: LoadResult, schedule: Schedule) -> str | None:
    if not load.interrupted:
        return None
    done = sum(record.error != "interrupted" for record in load.records)
    return f"interrupted after {done} of {len(schedule.entries)} requests"
