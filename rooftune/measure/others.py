"""Processor time that neither the client nor the server used while a run lasted: the machine was not theirs alone."""

from __future__ import annotations

import os
from types import TracebackType

import psutil


class OtherLoad:
    """Use as a context manager around the load; ``share`` afterwards.

    server: process id of a server on this machine. Where it is not known, its time cannot be told from that of others
    and there is no reading.
    """

    def __init__(self, server: int | None) -> None:
        self._processes = None if server is None else [os.getpid(), server]
        self._first: tuple[float, float] | None = None
        self.share: float | None = None
        """Of all processors' time; None where it cannot be read."""

    def __enter__(self) -> OtherLoad:
        self._first = self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        last = self._read()
        if self._first is not None and last is not None and last[1] > self._first[1]:
            self.share = max(0.0, (last[0] - self._first[0]) / (last[1] - self._first[1]))

    def _read(self) -> tuple[float, float] | None:
        """(processor seconds of others, processor seconds that passed)."""
        if self._processes is None:
            return None
        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0) + getattr(times, "steal", 0.0)
        whole = float(sum(times)) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        try:
            own = sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in self._processes)
        except psutil.Error:
            return None
        return whole - idle - own, whole
