"""Signals beside the load, on the same clock: the machine's by psutil, the server's by its own account."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any

import psutil

from rooftune.errors import RooftuneError
from rooftune.measure.observed import ObservedServer
from rooftune.store.run import Series

_INTERVAL = 0.5
_UNITS = {
    "kv_used": "share",
    "cpu": "share",
    "cpu_steal": "share",
    "memory_used": "bytes",
    "client_cpu": "cores",
}


class Telemetry:
    """A thread that samples twice a second. Use as a context manager; read ``series()`` afterwards.

    A server that does not answer an observation leaves a gap in its series and is counted in ``missed``.
    """

    def __init__(self, server: ObservedServer | None, interval: float = _INTERVAL) -> None:
        self._server = server
        self._interval = interval
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._samples: dict[str, tuple[list[int], list[float]]] = {}
        self._process = psutil.Process()
        self.missed = 0
        self._steal_first: tuple[float, float] | None = None
        self._steal_last: tuple[float, float] | None = None

    def __enter__(self) -> Telemetry:
        psutil.cpu_percent(None)
        self._process.cpu_percent(None)
        self._steal_first = self._steal_last = _steal()
        self._thread = threading.Thread(target=self._work, name="telemetry", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=15.0)
        self._steal_last = _steal()

    @property
    def steal(self) -> float | None:
        """Share of this machine's processor time that the hypervisor gave to others; None where it is not told."""
        if self._steal_first is None or self._steal_last is None:
            return None
        total = self._steal_last[1] - self._steal_first[1]
        return None if total <= 0 else max(0.0, self._steal_last[0] - self._steal_first[0]) / total

    def series(self) -> tuple[Series, ...]:
        return tuple(
            Series(name, _UNITS.get(name, "count"), tuple(times), tuple(values))
            for name, (times, values) in sorted(self._samples.items())
            if times
        )

    def _work(self) -> None:
        before = self._steal_first
        while not self._stop.wait(self._interval):
            now = time.monotonic_ns()
            self._add("cpu", now, psutil.cpu_percent(None) / 100.0)
            self._add("client_cpu", now, self._process.cpu_percent(None) / 100.0)
            self._add("memory_used", now, float(psutil.virtual_memory().used))
            after = _steal()
            if before is not None and after is not None and after[1] > before[1]:
                self._add("cpu_steal", now, max(0.0, after[0] - before[0]) / (after[1] - before[1]))
            before = after
            if self._server is not None:
                self._observe(self._server)

    def _observe(self, server: ObservedServer) -> None:
        try:
            seen: Any = server.observe()
            gauges = dict(seen.gauges)
        except (RooftuneError, OSError, ValueError, KeyError, TypeError):
            # Whatever a strange server answers, the load goes on; how often it happened is kept.
            self.missed += 1
            return
        for name, value in gauges.items():
            self._add(name, seen.time_ns, value)

    def _add(self, name: str, now: int, value: float) -> None:
        times, values = self._samples.setdefault(name, ([], []))
        times.append(now)
        values.append(float(value))


def _steal() -> tuple[float, float] | None:
    """(stolen, total) processor seconds of this machine, where the kernel tells."""
    times = psutil.cpu_times()
    stolen = getattr(times, "steal", None)
    return None if stolen is None else (float(stolen), float(sum(times)))
