"""Sends a schedule and collects what comes back: open loop by the clock, closed loop by users who wait."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rooftune.errors import EnvironmentProblem
from rooftune.measure.client.connection import Connection, Pool
from rooftune.measure.client.decode import TextPolicy, decode
from rooftune.measure.client.payload import payload
from rooftune.measure.client.raw import RawAnswer
from rooftune.measure.target import Target, address_of, public_url, tls_context
from rooftune.store.records import RequestRecord
from rooftune.workload.schedule import Schedule

_EARLY = 0.0015
"""Timers fire up to a millisecond late, so the sender wakes this much early and yields until the time has come."""
_SPIN_BELOW_RATE = 200.0
_TICK = 0.05
_RETAIN = 256 << 20
"""Body bytes held undecoded; beyond it answers are decoded as they end, at some cost in stamping precision."""
_WARM_CONNECTIONS = 16


@dataclass(slots=True)
class LoadResult:
    """What one load gave. cpu_share: of one core, by the client's thread. stall: longest time in seconds that the
    client's loop came late to its own tick. in_flight: (time, requests) sampled at the ticks."""

    records: list[RequestRecord]
    begin_ns: int
    end_ns: int
    interrupted: bool
    cpu_share: float
    stall: float
    connections: int
    decoded_early: bool
    in_flight: list[tuple[int, int]] = field(default_factory=list)


def run_load(
    target: Target,
    schedule: Schedule,
    *,
    text: TextPolicy = "hash",
    maximum_seconds: float | None = None,
    advance: Callable[[float], None] = lambda share: None,
) -> LoadResult:
    """Send the whole schedule and wait for every answer.

    maximum_seconds: no request starts after it (closed loop: the run's duration). SIGINT stops the run: what was
    answered is returned, what was in flight is marked interrupted, a second SIGINT raises KeyboardInterrupt.
    Raises EnvironmentProblem where no connection can be opened at the start.
    """
    load = _Load(target, schedule, text, maximum_seconds, advance)
    with _quiet_interpreter():
        return asyncio.run(load.run())


@contextlib.contextmanager
def _quiet_interpreter() -> Iterator[None]:
    """No garbage collection during the run (a full collection stops every stamp for its duration), and short turns
    for other threads, so that telemetry cannot hold the interpreter for its default 5 ms."""
    was_enabled, interval = gc.isenabled(), sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    gc.disable()
    sys.setswitchinterval(0.0005)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.unfreeze()
        if was_enabled:
            gc.enable()


class _Load:
    def __init__(
        self,
        target: Target,
        schedule: Schedule,
        text: TextPolicy,
        maximum_seconds: float | None,
        advance: Callable[[float], None],
    ) -> None:
        self._target = target
        self._schedule = schedule
        self._text: TextPolicy = text
        self._maximum = maximum_seconds
        self._advance = advance
        self._payloads = [payload(target, entry) for entry in schedule.entries]
        self._answers: dict[int, RawAnswer] = {}
        self._records: dict[int, RequestRecord] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = 0
        self._in_flight = 0
        self._retained = 0
        self._decoded_early = False
        self._interrupted = False
        self._samples: list[tuple[int, int]] = []
        self._stall = 0.0
        self._begin_ns = 0

    async def run(self) -> LoadResult:
        address = address_of(self._target.url)
        _allow_files(self._target.maximum_connections)
        self._pool = Pool(
            address.host, address.port, tls_context(self._target), self._target.maximum_connections
        )
        self._stop = asyncio.Event()
        users = self._schedule.users or 1
        wanted = users if self._schedule.closed_loop else min(_WARM_CONNECTIONS, len(self._payloads))
        try:
            await self._pool.warm(min(wanted, len(self._payloads), self._target.maximum_connections))
        except (OSError, ssl.SSLError) as problem:
            detail = getattr(problem, "strerror", None) or str(problem)
            raise EnvironmentProblem(f"{public_url(self._target.url)} cannot be reached: {detail}") from None
        ticker = asyncio.create_task(self._tick())
        busy = time.thread_time()
        self._begin_ns = time.monotonic_ns()
        with self._on_interrupt():
            try:
                if self._schedule.closed_loop:
                    await self._closed(users)
                else:
                    await self._open()
            finally:
                busy = time.thread_time() - busy
                ticker.cancel()
                self._pool.close()
        for index, raw in sorted(self._answers.items()):
            self._decode(index, raw)
        records = [self._records[index] for index in sorted(self._records)]
        end = max((r.end_ns for r in records if r.end_ns is not None), default=time.monotonic_ns())
        elapsed = max(1e-9, (end - self._begin_ns) / 1e9)
        return LoadResult(
            records,
            self._begin_ns,
            end,
            self._interrupted,
            busy / elapsed,
            self._stall,
            self._pool.opened,
            self._decoded_early,
            self._samples,
        )

    async def _open(self) -> None:
        spin = (self._schedule.rate or 0.0) < _SPIN_BELOW_RATE
        for index, entry in enumerate(self._schedule.entries):
            if self._over(entry.offset_ns):
                break
            due = self._begin_ns + entry.offset_ns
            if not await self._sleep_until(due, spin):
                break
            # With an idle connection the bytes leave here, before any task is scheduled.
            connection = self._pool.take()
            raw = self._answers[index] = RawAnswer(index, due)
            done = None
            if connection is not None:
                done = connection.send(self._payloads[index], raw)
            task = asyncio.create_task(self._request(raw, connection, done))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await self._drain()

    async def _closed(self, users: int) -> None:
        remaining = iter(range(len(self._payloads)))

        async def user() -> None:
            due = self._begin_ns
            for index in remaining:
                if self._over(due - self._begin_ns) or not await self._sleep_until(due, spin=False):
                    return
                raw = self._answers[index] = RawAnswer(index, due)
                await self._request(raw, None, None)
                ended = raw.end_ns if raw.end_ns is not None else time.monotonic_ns()
                due = ended + round(self._schedule.think * 1e9)

        for _ in range(min(users, len(self._payloads))):
            task = asyncio.create_task(user())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await self._drain()

    def _over(self, offset_ns: int) -> bool:
        return self._stop.is_set() or (self._maximum is not None and offset_ns > self._maximum * 1e9)

    async def _sleep_until(self, due_ns: int, spin: bool) -> bool:
        """False when the run was stopped meanwhile."""
        while not self._stop.is_set():
            left = (due_ns - time.monotonic_ns()) / 1e9
            if left <= 0:
                return True
            if not spin:
                await self._stopped_within(left)
            elif left > _EARLY:
                await self._stopped_within(left - _EARLY)
            else:
                await asyncio.sleep(0)
        return False

    async def _stopped_within(self, seconds: float) -> None:
        if seconds < 0.2:
            await asyncio.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()

    async def _request(
        self, raw: RawAnswer, connection: Connection | None, done: asyncio.Future[None] | None
    ) -> None:
        """One request from its scheduled time to its end; every failure ends in the record."""
        self._in_flight += 1
        try:
            async with asyncio.timeout(self._target.timeout):
                while True:
                    if connection is None:
                        connection = self._pool.take() or await self._pool.open()
                    if done is None:
                        done = connection.send(self._payloads[raw.index], raw)
                    await done
                    if raw.error == "connect" and connection.stale:
                        # The server closed a kept connection before this request reached it: not its failure.
                        self._pool.give(connection)
                        connection, done = None, None
                        raw.error = raw.error_detail = raw.end_ns = None
                        continue
                    break
        except TimeoutError:
            self._cut(raw, connection, "timeout", f"no whole answer within {self._target.timeout:g} s")
        except asyncio.CancelledError:
            self._cut(raw, connection, "interrupted", "the run was stopped")
        except (OSError, ssl.SSLError) as problem:
            detail = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
            self._cut(raw, connection, "connect", detail)
        finally:
            self._in_flight -= 1
            self._ended += 1
            if connection is not None:
                self._pool.give(connection)
            self._retained += raw.size
            if self._retained > _RETAIN:
                self._decoded_early = True
                self._decode(raw.index, self._answers.pop(raw.index))
                self._retained -= raw.size

    @staticmethod
    def _cut(raw: RawAnswer, connection: Connection | None, error: str, detail: str) -> None:
        if connection is not None and connection.answer is raw:
            connection.fail(error, detail)
        elif raw.end_ns is None:
            raw.end_ns = time.monotonic_ns()
            raw.error, raw.error_detail = error, detail

    async def _drain(self) -> None:
        """Wait for all answers, or for the order to stop."""
        stop = asyncio.create_task(self._stop.wait())
        try:
            while self._tasks and not self._stop.is_set():
                await asyncio.wait({stop, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _tick(self) -> None:
        """Samples requests in flight, notices when the loop itself was held up, and tells progress."""
        told = 0.0
        expected = time.monotonic()
        while True:
            expected += _TICK
            await asyncio.sleep(max(0.0, expected - time.monotonic()))
            now = time.monotonic()
            self._stall = max(self._stall, now - expected)
            expected = max(expected, now - _TICK)
            self._samples.append((time.monotonic_ns(), self._in_flight))
            if now - told >= 0.5:
                told = now
                self._advance(self._share())

    def _share(self) -> float:
        elapsed = (time.monotonic_ns() - self._begin_ns) / 1e9
        by_count = self._ended / max(1, len(self._payloads))
        if self._maximum is not None and self._schedule.closed_loop:
            return min(1.0, max(by_count, elapsed / self._maximum))
        return by_count

    def _decode(self, index: int, raw: RawAnswer) -> None:
        entry = self._schedule.entries[index]
        self._records[index] = decode(
            raw,
            asked_output_tokens=entry.max_tokens if entry.fixed_output else None,
            session=entry.session,
            text=self._text,
        )
        raw.reads.clear()

    @contextlib.contextmanager
    def _on_interrupt(self) -> Iterator[None]:
        """SIGINT stops the load once; the second one is Python's own. Only the main thread may take signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        before: Any = signal.getsignal(signal.SIGINT)

        def stop(number: int, frame: Any) -> None:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True
            loop.call_soon_threadsafe(self._stop.set)

        signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _allow_files(wanted: int) -> None:
    """Raise the soft limit of open files to what the connections may need, within the hard limit."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + 256
    if soft != resource.RLIM_INFINITY and soft < needed:
        goal = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
