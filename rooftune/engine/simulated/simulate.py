"""The engine without a model: the same scheduler under a virtual clock, steps take what a step-time model says."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count

from rooftune.engine.contracts import EngineConfig, GenerationRequest, SamplingParameters
from rooftune.engine.limits import RequestRefused
from rooftune.engine.scheduler import Scheduler
from rooftune.engine.simulated.model import StepTimeModel
from rooftune.engine.stats import Clocks, EngineStats, StepRecord, snapshot
from rooftune.engine.work import Step

UNLIMITED_CONTEXT = 1 << 40

Arrival = tuple[float, "int | tuple[int, ...]", int]
"""Seconds, prompt (a number of tokens that nothing else shares, or the tokens themselves), output tokens."""


@dataclass(slots=True)
class SimulatedRequest:
    """Times of one request, seconds of the virtual clock. ``refused`` says why it was never queued."""

    index: int
    arrival: float
    prompt_tokens: int
    output_tokens: int
    token_times: list[float] = field(default_factory=list)
    admitted: float | None = None
    cached_tokens: int = 0
    preemptions: int = 0
    refused: str | None = None

    @property
    def first_token(self) -> float | None:
        return self.token_times[0] if self.token_times else None

    @property
    def last_token(self) -> float | None:
        """None while it is not complete."""
        return self.token_times[-1] if len(self.token_times) == self.output_tokens else None


@dataclass(frozen=True, slots=True)
class Simulation:
    """requests: in order of their index; steps: every step, as the engine's step log; stats: at the end."""

    requests: list[SimulatedRequest]
    steps: list[StepRecord]
    stats: EngineStats


Follow = Callable[[SimulatedRequest], Iterable[Arrival]]
"""Called when a request is complete (or refused): what arrives because of it. Closed loops are made with this."""


def simulate(
    arrivals: Iterable[Arrival],
    config: EngineConfig,
    model: StepTimeModel,
    maximum_context: int = UNLIMITED_CONTEXT,
) -> list[SimulatedRequest]:
    """Times of each request, in the order of ``arrivals``."""
    return run_simulation(arrivals, config, model, maximum_context=maximum_context).requests


def run_simulation(
    arrivals: Iterable[Arrival],
    config: EngineConfig,
    model: StepTimeModel,
    *,
    follow: Follow | None = None,
    maximum_context: int = UNLIMITED_CONTEXT,
    debug: bool = False,
) -> Simulation:
    """Serve ``arrivals`` and what ``follow`` adds until all is done; index = order of coming into being.

    A request that comes while a step runs is seen by the next one, as in the engine. Output tokens are made up and
    differ between requests, so a later prompt hits the prefix cache only by the prompt tokens of earlier ones.
    """
    return _Simulator(config, model, maximum_context, debug, follow).run(arrivals)


class _Simulator:
    def __init__(
        self,
        config: EngineConfig,
        model: StepTimeModel,
        maximum_context: int,
        debug: bool,
        follow: Follow | None,
    ) -> None:
        self.scheduler = Scheduler(config, maximum_context, debug=debug)
        self.model = model
        self.follow = follow
        self.requests: list[SimulatedRequest] = []
        self.steps: list[StepRecord] = []
        self.clocks = Clocks()
        self.queue: list[tuple[float, int, SimulatedRequest, tuple[int, ...]]] = []
        # Made-up tokens are negative and never repeat, so they meet neither each other nor real ones.
        self.fresh = count(-1, -1)

    def run(self, arrivals: Iterable[Arrival]) -> Simulation:
        self.expect(arrivals)
        now = 0.0
        while True:
            while self.queue and self.queue[0][0] <= now:
                self.arrive(*heapq.heappop(self.queue)[2:])
            plan = self.scheduler.plan(now)
            if isinstance(plan, Step):
                now = self.take_step(plan, now)
                continue
            times = [entry[0] for entry in self.queue[:1]] + ([] if plan.wake is None else [plan.wake])
            if not times:
                break
            now = max(now, min(times))
        stats = snapshot(self.scheduler, self.clocks, {}, True, None)
        return Simulation(self.requests, self.steps, stats)

    def expect(self, arrivals: Iterable[Arrival]) -> None:
        for time, prompt, output in arrivals:
            tokens = tuple(next(self.fresh) for _ in range(prompt)) if isinstance(prompt, int) else prompt
            request = SimulatedRequest(len(self.requests), time, len(tokens), output)
            self.requests.append(request)
            heapq.heappush(self.queue, (time, request.index, request, tokens))

    def arrive(self, request: SimulatedRequest, tokens: tuple[int, ...]) -> None:
        limit = self.scheduler.config.queue_limit
        try:
            if len(self.scheduler.waiting) >= limit:
                raise RequestRefused(f"{limit} requests wait already")
            sampling = SamplingParameters(maximum_tokens=request.output_tokens)
            self.scheduler.add(GenerationRequest(str(request.index), tokens, sampling), request.arrival)
        except RequestRefused as reason:
            request.refused = str(reason)
            self.done(request)

    def take_step(self, step: Step, now: float) -> float:
        """Let the step pass; gives the time at its end."""
        seconds = self.model.seconds(step.work)
        used = self.scheduler.pool.used
        record = StepRecord(round(now * 1e9), seconds, seconds, step.work, step.waiting, step.running, used)
        self.steps.append(record)
        end = now + seconds
        self.clocks.forward += seconds
        self.clocks.last_step = self.clocks.heartbeat = end
        tokens = [next(self.fresh) for row in step.rows if row.samples]
        for result in self.scheduler.commit(step, tokens, end):
            request = self.requests[int(result.sequence.id)]
            request.token_times.append(end)
            if result.finish is not None:
                request.admitted = result.sequence.admitted
                request.cached_tokens = result.sequence.cached_tokens
                request.preemptions = result.sequence.preemptions
                self.done(request)
        return end

    def done(self, request: SimulatedRequest) -> None:
        if self.follow is not None:
            self.expect(self.follow(request))
