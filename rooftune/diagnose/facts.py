"""What a run says about itself, computed once and read by every judge. Ratios only decide, so units cancel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from rooftune.diagnose.roof_facts import RoofFacts, roof_facts
from rooftune.diagnose.step_model import Step, StepModel, begin_of, context_of, fit_steps, seconds_of
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


@dataclass(frozen=True, slots=True)
class Facts:
    requests: int
    failed: int
    ttft: float | None
    tpot: float | None
    queue: float | None
    """Mean seconds in the queue, by the server's own timings."""
    prefill: float | None
    queue_by_little: float | None
    """Mean seconds in the queue by Little's law: time integral of the waiting gauge over requests. Independent of timings."""
    lost: Lost | None
    bounds: tuple[str, ...]
    """Bounds that are stated, in words."""
    missed: tuple[str, ...]
    slots: int | None
    batching: str | None
    running_mean: float | None
    waiting_mean: float | None
    waiting_share: float | None
    """Share of busy time in which some request waits."""
    at_limit_share: float | None
    """Of the time in which some request waits: share with every slot taken."""
    kv_used_high: float | None
    """95th percentile of the pool's use, 0 to 1."""
    preemptions: float | None
    busy_share: float | None
    """Share of the time from first arrival to last that the server computes."""
    growth: float | None
    """Mean TTFT of the last third of arrivals over that of the first third."""
    backlog: float | None
    """Offered rate over the rate served while arrivals lasted."""
    model: StepModel | None
    decode_step: float | None
    """Mean seconds of steps that only decode."""
    decode_rows: float | None
    decode_context: float | None
    """Mean cached tokens over all rows of such a step."""
    host_share: float | None
    """Share of step time outside the forward pass, with the gaps between steps while work was there."""
    prefill_share: float | None
    """Share of busy time that is prompt processing, by the step model."""
    idle_share: float | None
    """Share of slots without a sequence in decode steps while requests wait (a static batch holds finished slots)."""
    prompt_tokens: float | None
    """Mean uncached prompt tokens of a request."""
    roofs: RoofFacts
    steps: int

    @property
    def flat_share(self) -> float | None:
        """Share of the mean decode step that does not grow with the batch; None where the batch did not vary."""
        if self.model is None or not self.model.separable or self.decode_rows is None:
            return None
        whole = self.model.seconds(rows=self.decode_rows, context_tokens=self.decode_context or 0.0)
        return self.model.base / whole if whole > 0 else None

    def gain_of_doubling(self) -> float | None:
        """Predicted throughput with twice the rows per step over today's, prompts' share unchanged (step model)."""
        if self.model is None or not self.model.separable or not self.decode_rows:
            return None
        rows, context = self.decode_rows, self.decode_context or 0.0
        if self.slots is not None and self.at_limit_share is not None and self.at_limit_share > 0.5:
            scale = self.slots / rows
            rows, context = self.slots, context * scale
        one = self.model.seconds(rows=rows, context_tokens=context)
        two = self.model.seconds(rows=2 * rows, context_tokens=2 * context)
        prefill = min(0.99, self.prefill_share or 0.0)
        return 1.0 / (prefill + (1.0 - prefill) * two / (2.0 * one))


def gather(run: Run, goals: Sequence[Goal] = ()) -> Facts:
    """Everything that can be read from a run; what cannot is None."""
    good = [r for r in run.records if r.succeeded]
    steps = sorted(_within(run.steps, run), key=begin_of)
    config = run.resolved or {}
    slots = find(config, "slots", "max_num_seqs")
    batching = find(config, "batching")
    model = fit_steps(steps)
    decode_only = [s for s in steps if s["decode_rows"] > 0 and s["prefill_tokens"] == 0]
    gauges = _gauges(run, steps, None if slots is None else int(slots), str(batching) if batching else None)
    bounds, missed = _bounds(run, good, goals)
    queue, prefill = _timing(good, "queue"), _timing(good, "prefill")
    little = _little(steps, run) if steps else None
    ttft, tpot = _mean([_ttft(r) for r in good]), _mean([_tpot(r) for r in good])
    return Facts(
        requests=len(run.records),
        failed=len(run.records) - len(good),
        ttft=ttft,
        tpot=tpot,
        queue=queue,
        prefill=prefill,
        queue_by_little=little,
        lost=_lost(run, good, goals, little),
        bounds=bounds,
        missed=missed,
        slots=None if slots is None else int(slots),
        batching=str(batching) if batching is not None else None,
        running_mean=gauges["running_mean"],
        waiting_mean=gauges["waiting_mean"],
        waiting_share=gauges["waiting_share"],
        at_limit_share=gauges["at_limit_share"],
        kv_used_high=_high(run, "kv_used"),
        preemptions=run.counters.get("preemptions"),
        busy_share=_busy(run, steps),
        growth=_growth(good),
        backlog=_backlog(run, good),
        model=model,
        decode_step=_mean([seconds_of(s) for s in decode_only]),
        decode_rows=_mean([s["decode_rows"] for s in decode_only]),
        decode_context=_mean([context_of(s) for s in decode_only]),
        host_share=_host_share(run, steps),
        prefill_share=_prefill_share(steps, model),
        idle_share=_idle_share(steps, None if slots is None else int(slots)),
        prompt_tokens=_mean(
            [r.prompt_tokens - (r.cached_tokens or 0) for r in good if r.prompt_tokens is not None]
        ),
        roofs=roof_facts(
            run.roofs, config.get("model") if isinstance(config.get("model"), Mapping) else None
        ),
        steps=len(steps),
    )


def find(config: Mapping[str, Any], *names: str) -> Any:
    """The first value under one of the names, at any depth."""
    for name in names:
        if config.get(name) is not None and not isinstance(config[name], Mapping):
            return config[name]
    for value in config.values():
        if isinstance(value, Mapping):
            found = find(value, *names)
            if found is not None:
                return found
    return None


def _within(steps: Sequence[Step], run: Run) -> list[Step]:
    return [s for s in steps if run.begin_ns <= begin_of(s) <= run.end_ns]


def _ttft(record: RequestRecord) -> float | None:
    first = record.first_token_ns
    return None if first is None else (first - record.scheduled_ns) * 1e-9


def _tpot(record: RequestRecord) -> float | None:
    first, last, tokens = record.first_token_ns, record.last_token_ns, record.output_tokens
    if first is None or last is None or tokens is None or tokens < 2:
        return None
    return (last - first) * 1e-9 / (tokens - 1)


def _e2e(record: RequestRecord) -> float | None:
    last = record.last_token_ns
    return None if last is None else (last - record.scheduled_ns) * 1e-9


def _timing(records: Sequence[RequestRecord], name: str) -> float | None:
    known = [r.server_timings[name] for r in records if r.server_timings and name in r.server_timings]
    return float(np.mean(known)) if known and len(known) >= 0.5 * len(records) else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return float(np.mean(known)) if known else None


def _durations(steps: Sequence[Step]) -> list[float]:
    """Seconds from each step's begin to the next's, the gap counted only while work was there."""
    result = []
    for step, after in pairwise(steps):
        apart = (begin_of(after) - begin_of(step)) * 1e-9
        busy = (
            step["waiting"] > 0
            or after["running"] > after.get("finished_prompts", 0.0)
            or step["running"] > 1
        )
        result.append(max(apart, seconds_of(step)) if busy else seconds_of(step))
    result += [seconds_of(s) for s in steps[-1:]]
    return result


def _little(steps: Sequence[Step], run: Run) -> float | None:
    spans = _durations(steps)
    arrived = len(run.records)
    return sum(s["waiting"] * d for s, d in zip(steps, spans, strict=True)) / arrived if arrived else None


def _gauges(
    run: Run, steps: Sequence[Step], slots: int | None, batching: str | None
) -> dict[str, float | None]:
    running, waiting, weights = _gauge_arrays(run, steps)
    if running is None or waiting is None or weights is None or weights.sum() <= 0:
        return dict.fromkeys(("running_mean", "waiting_mean", "waiting_share", "at_limit_share"))
    held = running >= (slots or np.inf)
    if batching in ("static", "dynamic"):
        # Slots of a batch stay taken until its last sequence ends, though fewer sequences run.
        held = running > 0
    waits = waiting > 0
    total = float(weights.sum())
    waited = float(weights[waits].sum())
    return {
        "running_mean": float((running * weights).sum() / total),
        "waiting_mean": float((waiting * weights).sum() / total),
        "waiting_share": waited / total,
        "at_limit_share": float(weights[waits & held].sum() / waited)
        if waited > 0 and slots is not None
        else None,
    }


def _gauge_arrays(run: Run, steps: Sequence[Step]) -> tuple[Any, Any, Any]:
    if steps:
        return (
            np.array([s["running"] for s in steps]),
            np.array([s["waiting"] for s in steps]),
            np.array(_durations(steps)),
        )
    series = {s.name: s for s in run.series}
    if "running" not in series or "waiting" not in series:
        return None, None, None
    running, waiting = np.array(series["running"].values), np.array(series["waiting"].values)
    size = min(len(running), len(waiting))
    busy = running[:size] > 0
    return running[:size][busy], waiting[:size][busy], np.ones(int(busy.sum()))


def _high(run: Run, name: str) -> float | None:
    values = next((s.values for s in run.series if s.name == name and s.values), None)
    return float(np.quantile(values, 0.95)) if values else None


def _busy(run: Run, steps: Sequence[Step]) -> float | None:
    window = _arrival_window(run)
    if not steps or window is None:
        return None
    begin, end = window
    inside = sum(seconds_of(s) for s in steps if begin <= begin_of(s) <= end)
    return min(1.0, inside / ((end - begin) * 1e-9))


def _arrival_window(run: Run) -> tuple[int, int] | None:
    times = [r.scheduled_ns for r in run.records]
    return (min(times), max(times)) if len(times) >= 2 and max(times) > min(times) else None


def _growth(good: Sequence[RequestRecord]) -> float | None:
    ordered = [t for r in sorted(good, key=lambda r: r.scheduled_ns) if (t := _ttft(r)) is not None]
    third = len(ordered) // 3
    if third < 4:
        return None
    first = float(np.mean(ordered[:third]))
    return float(np.mean(ordered[-third:])) / first if first > 0 else None


def _backlog(run: Run, good: Sequence[RequestRecord]) -> float | None:
    window = _arrival_window(run)
    if window is None or len(good) < 12:
        return None
    ended = sum(1 for r in good if r.last_token_ns is not None and r.last_token_ns <= window[1])
    return len(run.records) / max(1, ended)


def _host_share(run: Run, steps: Sequence[Step]) -> float | None:
    forward = [s.get("forward_seconds", s.get("forward")) for s in steps]
    total = sum(_durations(steps))
    if steps and all(f is not None for f in forward) and total > 0:
        return max(0.0, 1.0 - sum(float(f or 0.0) for f in forward) / total)
    parts = {k: v for k, v in run.counters.items() if k in ("seconds_forward", "forward_seconds")}
    if parts and total > 0:
        return min(1.0, max(0.0, 1.0 - next(iter(parts.values())) / total))
    return None


def _idle_share(steps: Sequence[Step], slots: int | None) -> float | None:
    rows = [
        s["decode_rows"]
        for s in steps
        if s["waiting"] > 0 and s["prefill_tokens"] == 0 and s["decode_rows"] > 0
    ]
    return None if not slots or len(rows) < 5 else max(0.0, 1.0 - float(np.mean(rows)) / slots)


def _prefill_share(steps: Sequence[Step], model: StepModel | None) -> float | None:
    if not steps:
        return None
    total = sum(seconds_of(s) for s in steps)
    prefill = 0.0
    for step in steps:
        if step["prefill_tokens"] > 0:
            alone = step["decode_rows"] == 0 or model is None
            extra = (
                seconds_of(step)
                if alone or model is None
                else model.per_prefill_token * step["prefill_tokens"]
            )
            prefill += min(extra, seconds_of(step))
    return prefill / total if total > 0 else None


def _bounds(
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
    return {"ttft": _ttft, "tpot": _tpot, "itl": _tpot, "e2e": _e2e}[name](record)


def _limits(run: Run, goals: Sequence[Goal]) -> dict[str, float]:
    """Bound per request by phase: the SLO, tightened by latency goals."""
    limits = dict(run.slo)
    for goal in goals:
        name = goal.metric.split("_", 1)[0]
        if name in ("ttft", "tpot", "itl", "e2e") and goal.dimension == "time":
            limits[name] = min(limits.get(name, goal.target), goal.target)
    return limits


def _lost(
    run: Run, good: Sequence[RequestRecord], goals: Sequence[Goal], little: float | None
) -> Lost | None:
    limits = _limits(run, goals)
    excess = limits and any(
        (v := _value(r, n)) is not None and v > m for r in good for n, m in limits.items()
    )
    sums = dict.fromkeys(("queue", "prefill", "rest", "decode"), 0.0)
    for record in good:
        ttft, e2e = _ttft(record), _e2e(record)
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
