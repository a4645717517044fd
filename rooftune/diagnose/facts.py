"""What a run says about itself, computed once and read by every judge. Ratios only decide, so units cancel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rooftune.diagnose.gauges import slot_gauges, step_spans
from rooftune.diagnose.lost_time import (
    Lost,
    lost_time,
    mean_of,
    stated_bounds,
    timing_mean,
    tpot_of,
    ttft_of,
)
from rooftune.diagnose.roof_facts import RoofFacts, roof_facts
from rooftune.diagnose.step_model import Step, StepModel, begin_of, context_of, fit_steps, seconds_of
from rooftune.spec.goal import Goal
from rooftune.store.records import RequestRecord
from rooftune.store.run import Run


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
    gauges = slot_gauges(
        run, steps, None if slots is None else int(slots), str(batching) if batching else None
    )
    bounds, missed = stated_bounds(run, good, goals)
    queue, prefill = timing_mean(good, "queue"), timing_mean(good, "prefill")
    little = _little(steps, run) if steps else None
    ttft, tpot = mean_of([ttft_of(r) for r in good]), mean_of([tpot_of(r) for r in good])
    return Facts(
        requests=len(run.records),
        failed=len(run.records) - len(good),
        ttft=ttft,
        tpot=tpot,
        queue=queue,
        prefill=prefill,
        queue_by_little=little,
        lost=lost_time(run, good, goals, little),
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
        decode_step=mean_of([seconds_of(s) for s in decode_only]),
        decode_rows=mean_of([s["decode_rows"] for s in decode_only]),
        decode_context=mean_of([context_of(s) for s in decode_only]),
        host_share=_host_share(run, steps),
        prefill_share=_prefill_share(steps, model),
        idle_share=_idle_share(steps, None if slots is None else int(slots)),
        prompt_tokens=mean_of(
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


def _little(steps: Sequence[Step], run: Run) -> float | None:
    spans = step_spans(steps)
    arrived = len(run.records)
    return sum(s["waiting"] * d for s, d in zip(steps, spans, strict=True)) / arrived if arrived else None


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
    ordered = [t for r in sorted(good, key=lambda r: r.scheduled_ns) if (t := ttft_of(r)) is not None]
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
    total = sum(step_spans(steps))
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
