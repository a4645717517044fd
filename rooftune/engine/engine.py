"""The engine: requests from any thread, one thread of its own that plans, runs, samples and reports each step."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import replace
from typing import Any

import torch

from rooftune.engine.contracts import (
    EngineConfig,
    FinishReason,
    GenerationRequest,
    ModelRunner,
    RequestOutput,
    StepListener,
)
from rooftune.engine.ledger import ledger
from rooftune.engine.limits import EngineStopped, QueueFull, RequestRefused, check_request, longest_sequence
from rooftune.engine.outputs import last_output, token_output
from rooftune.engine.sampling import Draw, request_generator, sample
from rooftune.engine.scheduler import Scheduler
from rooftune.engine.stats import Clocks, EngineStats, StepRecord, snapshot
from rooftune.engine.work import Idle, Step

logger = logging.getLogger(__name__)

STEP_LOG_LENGTH = 4096


class Engine:
    """Serves requests on one model runner under one configuration.

    ``submit`` and ``abort`` may be called from any thread; ``listener`` is called from the engine's thread, at most
    once a step, with everything that the step produced. ``step`` runs one step in the caller's thread: for tests,
    instead of ``start``.
    """

    def __init__(
        self,
        runner: ModelRunner,
        config: EngineConfig,
        listener: StepListener,
        *,
        namespace: str = "",
        debug: bool = False,
    ) -> None:
        """namespace: as in Scheduler. debug: check all laws of pool and scheduler at every step (slow)."""
        self.runner = runner
        self.config = config
        self.listener = listener
        self.scheduler = Scheduler(
            config, runner.maximum_context, vocabulary=runner.vocabulary, namespace=namespace, debug=debug
        )
        runner.allocate(self.scheduler.pool.total, config.page_size)
        self.longest_sequence = longest_sequence(config, runner.maximum_context)
        """Most tokens, prompt and output together, that one request may have."""
        self.step_log: deque[StepRecord] = deque(maxlen=STEP_LOG_LENGTH)
        """The last steps, oldest first; copy with ``steps_since``."""
        self._generators: dict[str, torch.Generator | None] = {}
        self._clocks = Clocks()
        self._error: str | None = None
        self._wake: float | None = None
        self._thread: threading.Thread | None = None
        # All below is shared with other threads and guarded by the condition's lock.
        self._condition = threading.Condition()
        self._inbox: list[tuple[GenerationRequest, float]] = []
        self._known: set[str] = set()
        self._aborted: list[str] = []
        self._reset_prefix = False
        self._stopping = False
        self._over = False
        self._busy_since: float | None = None
        self._snapshot = self._take_snapshot()

    # From any thread -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the engine's thread."""
        if self._thread is not None:
            raise RuntimeError("the engine was started already")
        self._thread = threading.Thread(target=self._run, name="rooftune-engine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End all requests with ``abort`` and the thread with them; returns when it is over."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        if self._thread is None:
            self._finish_all("abort", None)
        elif self._thread is not threading.current_thread():
            self._thread.join()

    def submit(self, request: GenerationRequest) -> None:
        """Queue a request. RequestRefused (a ValueError): it can never be served. QueueFull: not now.

        EngineStopped: the engine takes no more requests.
        """
        check_request(request, self.config, self.runner.maximum_context, self.runner.vocabulary)
        now = time.monotonic()
        with self._condition:
            if self._stopping or self._over:
                raise EngineStopped(f"the engine has stopped{f': {self._error}' if self._error else ''}")
            if request.id in self._known:
                raise RequestRefused(f"a request with the id {request.id!r} is already in the engine")
            waiting = len(self._inbox) + len(self.scheduler.waiting)
            if waiting >= self.config.queue_limit:
                raise QueueFull(f"{waiting} requests wait already (queue_limit {self.config.queue_limit})")
            if not self._known:
                self._busy_since = now
            self._known.add(request.id)
            self._inbox.append((request, now))
            self._condition.notify_all()

    def abort(self, id: str) -> None:
        """End a request in whatever state it is, before the next step; its last output says ``abort``.

        Nothing happens if it is not known or already over.
        """
        with self._condition:
            if id in self._known:
                self._aborted.append(id)
                self._condition.notify_all()

    def reset_prefix_cache(self) -> None:
        """Forget all known prefixes before the next step. Done when ``stats().pages_cached`` is 0 in idleness."""
        with self._condition:
            self._reset_prefix = True
            self._condition.notify_all()

    def stats(self) -> EngineStats:
        """The state after the last step; requests handed in since then count as waiting."""
        with self._condition:
            return replace(self._snapshot, waiting=self._snapshot.waiting + len(self._inbox))

    def healthy(self, limit: float) -> tuple[bool, str]:
        """Are steps being made? False if the thread is over, or if work waits and ``limit`` seconds brought no step."""
        with self._condition:
            if self._error is not None:
                return False, f"the engine died: {self._error}"
            if self._thread is None or self._over:
                return False, "the engine is not running"
            if not self._known or self._busy_since is None:
                return True, "idle"
            since = time.monotonic() - max(self._busy_since, self._clocks.heartbeat or 0.0)
        if since > limit:
            return (
                False,
                f"{len(self._known)} requests are in the engine, but no step ended for {since:.1f} s",
            )
        return True, "steps are being made"

    def steps_since(self, start_ns: int) -> list[StepRecord]:
        """Steps of the log that began at or after a monotonic time in nanoseconds."""
        with self._condition:
            return [record for record in self.step_log if record.start_ns >= start_ns]

    def ledger(self) -> list[dict[str, Any]]:
        """One entry per switch: name, requested, active, reason, counter {name, value}."""
        return ledger(self.config, self.stats(), self.runner.describe())

    # The engine's thread -------------------------------------------------------------------------------------

    def step(self) -> bool:
        """One step, with what was submitted and aborted before it; False if there was nothing to run."""
        start_ns = time.monotonic_ns()
        outputs: list[RequestOutput] = []
        self._take_messages(outputs)
        begin = time.monotonic()
        plan = self.scheduler.plan(begin)
        if isinstance(plan, Idle):
            self._wake = plan.wake
            self._publish(outputs)
            return False
        self._wake = None
        used_pages = self.scheduler.pool.used
        self._clocks.scheduling += time.monotonic() - begin
        forward = self._run_step(plan, outputs)
        self._tell(outputs)
        end_ns = time.monotonic_ns()
        self._clocks.last_step = self._clocks.heartbeat = end_ns / 1e9
        record = None
        if forward is not None:
            seconds = (end_ns - start_ns) / 1e9
            record = StepRecord(start_ns, seconds, forward, plan.work, plan.waiting, plan.running, used_pages)
        self._publish([], outputs, record)
        return True

    def _run_step(self, step: Step, outputs: list[RequestOutput]) -> float | None:
        """Forward, sample, commit; gives the seconds of the forward pass, None if the step failed.

        A fault ends the requests of the step, not the engine.
        """
        begin = time.monotonic()
        sampling_rows = [row.sequence for row in step.rows if row.samples]
        try:
            with torch.inference_mode():
                logits = self.runner.forward(step.slices())
                forwarded = time.monotonic()
                draws = sample(
                    logits,
                    [sequence.request.sampling for sequence in sampling_rows],
                    [self._generators[sequence.id] for sequence in sampling_rows],
                )
        except Exception as error:
            logger.exception("a step failed; its %d requests end with an error", len(step.rows))
            self._clocks.failed_steps += 1
            now = time.monotonic()
            message = f"the step failed: {type(error).__name__}: {error}"
            outputs.extend(last_output(sequence, now, message) for sequence in self.scheduler.fail(step))
            return None
        now = time.monotonic()
        self._commit(step, draws, outputs, now)
        self._clocks.forward += forwarded - begin
        self._clocks.sampling += now - forwarded
        self._clocks.scheduling += time.monotonic() - now
        return forwarded - begin

    def _commit(self, step: Step, draws: list[Draw], outputs: list[RequestOutput], now: float) -> None:
        faulty = {}
        for row, draw in zip((row for row in step.rows if row.samples), draws, strict=True):
            if draw.error is not None:
                faulty[row.sequence.id] = draw.error
        if faulty:
            step = replace(step, rows=self._drop(step, faulty, outputs, now))
            draws = [draw for draw in draws if draw.error is None]
        committed = self.scheduler.commit(step, [draw.token for draw in draws], now)
        for result, draw in zip(committed, draws, strict=True):
            outputs.append(token_output(result.sequence, result.token, draw.logprob, result.finish, now))

    def _drop(
        self, step: Step, faulty: dict[str, str], outputs: list[RequestOutput], now: float
    ) -> tuple[Any, ...]:
        """End the requests whose logits cannot be sampled; gives the rows that are left."""
        for row in step.rows:
            if row.sequence.id in faulty:
                self.scheduler.end(row.sequence, "error")
                outputs.append(last_output(row.sequence, now, faulty[row.sequence.id]))
        return tuple(row for row in step.rows if row.sequence.id not in faulty)

    def _take_messages(self, outputs: list[RequestOutput]) -> None:
        """Bring submissions and aborts of other threads to the scheduler."""
        with self._condition:
            inbox, self._inbox = self._inbox, []
            aborted, self._aborted = self._aborted, []
            reset, self._reset_prefix = self._reset_prefix, False
            # Under the lock, so that the queue limit never sees a request twice or not at all.
            for request, arrival in inbox:
                self.scheduler.add(request, arrival)
        for request, _ in inbox:
            self._generators[request.id] = request_generator(request.sampling, request.id, self.config.seed)
        if reset:
            self.scheduler.reset_prefix_cache()
        now = time.monotonic()
        if inbox or aborted:
            self._clocks.heartbeat = now
        for id in aborted:
            sequence = self.scheduler.abort(id)
            if sequence is not None:
                outputs.append(last_output(sequence, now, None))

    def _tell(self, outputs: list[RequestOutput]) -> None:
        if not outputs:
            return
        try:
            self.listener(outputs)
        except Exception:
            self._clocks.listener_errors += 1
            logger.exception("the listener of the engine failed")

    def _publish(
        self,
        untold: list[RequestOutput],
        told: list[RequestOutput] | None = None,
        record: StepRecord | None = None,
    ) -> None:
        """Make the new state visible to other threads; ``untold`` outputs go to the listener first."""
        self._tell(untold)
        for output in (*untold, *(told or ())):
            if output.finish is not None:
                self._generators.pop(output.id, None)
        with self._condition:
            self._known.difference_update(
                output.id for output in (*untold, *(told or ())) if output.finish is not None
            )
            if record is not None:
                self.step_log.append(record)
            self._snapshot = self._take_snapshot()

    def _run(self) -> None:
        try:
            while True:
                with self._condition:
                    self._condition.wait_for(self._due, timeout=self._timeout())
                    if self._stopping:
                        break
                self.step()
            self._finish_all("abort", None)
        except BaseException as error:
            logger.exception("the engine died")
            self._error = f"{type(error).__name__}: {error}"
            self._finish_all("error", f"the engine died: {self._error}")

    def _due(self) -> bool:
        busy = bool(self.scheduler.sequences) and (self._wake is None or time.monotonic() >= self._wake)
        return self._stopping or bool(self._inbox) or bool(self._aborted) or self._reset_prefix or busy

    def _timeout(self) -> float | None:
        return None if self._wake is None else max(0.0, self._wake - time.monotonic())

    def _finish_all(self, finish: FinishReason, error: str | None) -> None:
        """End every request that is still here; after this none is taken any more."""
        outputs: list[RequestOutput] = []
        now = time.monotonic()
        with self._condition:
            self._over = True
            inbox, self._inbox = self._inbox, []
        for request, arrival in inbox:
            timings = {"queue": now - arrival}
            outputs.append(RequestOutput(request.id, (), finish, 0, error=error, timings=timings))
        for sequence in list(self.scheduler.sequences.values()):
            try:
                self.scheduler.end(sequence, finish)
            except Exception:
                # Only after a death of the engine: the books may be what killed it.
                logger.exception("request %s could not be ended in order", sequence.id)
                sequence.finish = finish
            outputs.append(last_output(sequence, now, error))
        self._publish(outputs)

    def _take_snapshot(self) -> EngineStats:
        alive = not self._over and self._error is None
        return snapshot(self.scheduler, self._clocks, self.runner.counters(), alive, self._error)
