"""What the engine tells of itself: a snapshot of its state, and the log of its last steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from rooftune.engine.scheduler import Scheduler
from rooftune.engine.work import StepWork


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step. Sizes are of the step itself; waiting, running and used_pages are taken when it was planned."""

    start_ns: int
    """Monotonic."""
    duration: float
    """Seconds from the start of planning to the return of the listener: what a step costs in all."""
    forward: float
    """Seconds of it in the model runner."""
    work: StepWork
    waiting: int
    running: int
    used_pages: int

    def flat(self) -> dict[str, float]:
        """As one row of numbers for records and series."""
        work = self.work
        return {
            "start_ns": self.start_ns,
            "duration": self.duration,
            "forward": self.forward,
            "prefill_tokens": work.prefill_tokens,
            "prefill_context": work.prefill_context,
            "decode_rows": work.decode_rows,
            "decode_context": work.decode_context,
            "finished_prompts": work.finished_prompts,
            "context_sum": work.context_sum,
            "waiting": self.waiting,
            "running": self.running,
            "used_pages": self.used_pages,
        }


@dataclass(frozen=True, slots=True)
class EngineStats:
    """State of the engine after its last step. Counters only grow; times are seconds.

    waiting includes requests that were handed in but not yet seen by a step. ``alive`` is False once the engine's
    thread is over, with ``error`` if it died. heartbeat: monotonic seconds of the last sign of progress (a step,
    or waking from idleness); None before the first. pages: used by running requests, cached (free but findable),
    free, total. Prefix counts are prompt tokens. lost_tokens were computed again after a preemption.
    """

    alive: bool
    error: str | None
    running: int
    waiting: int
    pages_used: int
    pages_cached: int
    pages_free: int
    pages_total: int
    prefix_queries: int
    prefix_hits: int
    evictions: int
    preemptions: int
    lost_tokens: int
    steps: int
    prompt_tokens: int
    prefill_tokens: int
    generation_tokens: int
    joins_while_running: int
    prompts_split: int
    mixed_steps: int
    budget_full_steps: int
    idle_row_steps: int
    row_steps: int
    peak_running: int
    finished: dict[str, int]
    batch_sizes: dict[int, int]
    failed_steps: int
    listener_errors: int
    last_step: float | None
    heartbeat: float | None
    seconds_forward: float
    seconds_sampling: float
    seconds_scheduling: float
    runner_counters: dict[str, int] = field(default_factory=dict)

    @property
    def batches_formed(self) -> int:
        """How many times requests were admitted together (one or more)."""
        return sum(self.batch_sizes.values())


@dataclass(slots=True)
class Clocks:
    """Seconds that the engine's thread spent so far, when it last got on (monotonic), and what went wrong."""

    forward: float = 0.0
    sampling: float = 0.0
    scheduling: float = 0.0
    last_step: float | None = None
    heartbeat: float | None = None
    failed_steps: int = 0
    listener_errors: int = 0


def snapshot(
    scheduler: Scheduler, clocks: Clocks, runner_counters: dict[str, int], alive: bool, error: str | None
) -> EngineStats:
    """The present state as one immutable value; only the engine's thread may ask."""
    pool, counters = scheduler.pool, scheduler.counters
    return EngineStats(
        alive=alive,
        error=error,
        running=len(scheduler.running),
        waiting=len(scheduler.waiting),
        pages_used=pool.used,
        pages_cached=pool.cached,
        pages_free=pool.free,
        pages_total=pool.total,
        prefix_queries=scheduler.prefix.queries,
        prefix_hits=scheduler.prefix.hits,
        evictions=pool.evictions,
        preemptions=counters.preemptions,
        lost_tokens=counters.lost_tokens,
        steps=counters.steps,
        prompt_tokens=counters.prompt_tokens,
        prefill_tokens=counters.prefill_tokens,
        generation_tokens=counters.generation_tokens,
        joins_while_running=counters.joins_while_running,
        prompts_split=counters.prompts_split,
        mixed_steps=counters.mixed_steps,
        budget_full_steps=counters.budget_full_steps,
        idle_row_steps=counters.idle_row_steps,
        row_steps=counters.row_steps,
        peak_running=counters.peak_running,
        finished=dict(counters.finished),
        batch_sizes=dict(counters.batch_sizes),
        failed_steps=clocks.failed_steps,
        listener_errors=clocks.listener_errors,
        last_step=clocks.last_step,
        heartbeat=clocks.heartbeat,
        seconds_forward=clocks.forward,
        seconds_sampling=clocks.sampling,
        seconds_scheduling=clocks.scheduling,
        runner_counters=dict(runner_counters),
    )
