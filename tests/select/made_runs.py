"""Runs whose truth is known: a simulated server with a step-time model of our choice, written down as a measured Run."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rooftune.engine.contracts import EngineConfig
from rooftune.engine.server.insight import step_row
from rooftune.engine.simulated import StepTimeModel, run_simulation
from rooftune.engine.work import StepWork
from rooftune.select.simulate import metrics_of
from rooftune.spec import Workload
from rooftune.store.records import ChunkRecord, RequestRecord
from rooftune.store.run import MetricValue, Run
from rooftune.workload.schedule import Schedule, build_schedule

SLO = {"ttft": 1.0, "tpot": 0.06}
OVERHEAD = 0.004
TRUTH = StepTimeModel(0.012, 0.0014, 2e-7, 0.0025, 3e-6, 0.0004)
"""About what the packaged model costs on two slow cores."""


@dataclass(frozen=True, slots=True)
class Jittered(StepTimeModel):
    """Steps scatter by 5 %, as measured ones do."""

    draw: random.Random = field(default_factory=random.Random)

    def seconds(self, work: StepWork) -> float:
        return StepTimeModel.seconds(self, work) * max(self.draw.gauss(1.0, 0.05), 0.5)


def schedule(
    requests: int = 48, rate: float | None = 2.0, seed: int = 1, users: int | None = None
) -> Schedule:
    arrivals: dict[str, Any] = {"process": "poisson", "rate": f"{rate}/s"}
    if users is not None:
        arrivals = {"process": "concurrency", "users": users}
    workload = Workload.model_validate(
        {"arrivals": arrivals, "prompts": {"source": "builtin:chat", "output_tokens": 24}, "seed": seed}
    )
    return build_schedule(workload, requests=requests, rate=None if users else rate, seed=seed)


def tokens_of(text: str, known: dict[str, int]) -> tuple[int, ...]:
    """A tokenizer of its own (words), so that the prediction cannot know it."""
    return tuple(known.setdefault(word, len(known)) for word in text.replace("\x00", " \x00 ").split(" "))


def serve(
    config: EngineConfig, plan: Schedule, seed: int, truth: StepTimeModel = TRUTH, speed: float = 1.0
) -> Run:
    """Serve a schedule by the true model and write down what a client and the server's step log would tell."""
    known: dict[str, int] = {}
    prompts = [tokens_of(entry.text(), known) for entry in plan.entries]
    coefficients = {f.name: getattr(truth, f.name) for f in fields(StepTimeModel)}
    scaled = {
        name: value * speed if isinstance(value, float) else value for name, value in coefficients.items()
    }
    model = Jittered(**scaled, draw=random.Random(seed))
    everything = [
        (entry.offset_ns / 1e9, prompt, entry.max_tokens)
        for entry, prompt in zip(plan.entries, prompts, strict=True)
    ]
    rest = iter(everything[plan.users :]) if plan.users else iter(())
    first = everything[: plan.users] if plan.users else everything

    def follow(done: Any) -> Any:
        following = next(rest, None)
        return [] if following is None else [(done.token_times[-1] + plan.think, *following[1:])]

    simulation = run_simulation(first, config, model, follow=follow)
    records = [_record(request) for request in simulation.requests]
    steps = tuple(step_row(step) for step in simulation.steps)
    end = max(request.token_times[-1] for request in simulation.requests)
    metrics = metrics_of(simulation.requests, SLO, OVERHEAD)
    stats = simulation.stats
    return Run(
        id=f"run-{seed}-{config.batching}-{config.slots}-{plan.hash[:8]}",
        label="made",
        started_at="2026-01-01T00:00:00Z",
        target={},
        workload=plan.describe(),
        schedule_hash=plan.hash,
        slo=SLO,
        price_per_second=None,
        currency=None,
        environment={},
        roofs=None,
        resolved=asdict(config),
        ledger=(),
        records=tuple(records),
        begin_ns=0,
        end_ns=int(end * 1e9),
        counters={
            "prefix_query_tokens": stats.prefix_queries,
            "prefix_hit_tokens": stats.prefix_hits,
            "preemptions": stats.preemptions,
        },
        steps=steps,
        metrics=tuple(MetricValue(name, value, "s") for name, value in metrics.items()),
    )


def _record(request: Any) -> RequestRecord:
    begin = int(request.arrival * 1e9)
    admitted = request.admitted if request.admitted is not None else request.arrival
    chunks = [ChunkRecord(int((time + OVERHEAD) * 1e9), "content", 10, 1) for time in request.token_times]
    return RequestRecord(
        index=request.index,
        scheduled_ns=begin,
        sent_ns=begin,
        end_ns=chunks[-1].arrival_ns,
        status=200,
        chunks=chunks,
        prompt_tokens=request.prompt_tokens,
        prompt_tokens_source="usage",
        output_tokens=len(chunks),
        output_tokens_source="usage",
        cached_tokens=request.cached_tokens,
        server_timings={
            "queue": admitted - request.arrival,
            "prefill": request.token_times[0] - admitted,
            "decode": request.token_times[-1] - request.token_times[0],
        },
    )
