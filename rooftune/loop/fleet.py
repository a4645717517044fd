"""The servers of the arms: started when first needed, one a configuration, and all stopped together.

A *start* is a set of fresh server processes. Runs of one start share its servers; a new start replaces them all, so
that start-to-start variation is part of what a comparison sees (nested starts).
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from rooftune.runtimes.contract import Runtime, Server
from rooftune.spec import Configuration

_STARTS_AT_ONCE = 2


def _key(configuration: Configuration) -> str:
    return json.dumps(configuration, sort_keys=True)


class Fleet:
    """Owns every server that the loop starts. Use as a context manager: nothing is left running after it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._servers: dict[str, Server] = {}
        self._start_times: list[float] = []
        self._used: set[int] = set()

    def server(self, configuration: Configuration) -> Server:
        """The running server of a configuration, started now if there is none in this start."""
        key = _key(configuration)
        if key not in self._servers:
            self._servers[key] = self._start(configuration)
        return self._servers[key]

    def start_all(self, configurations: Sequence[Configuration]) -> None:
        """Start those that are not running, two at a time: a start is one thread's work, and nothing is measured meanwhile.

        A configuration that does not start is left to its own first use, which then tells why.
        """
        waiting = [c for c in configurations if _key(c) not in self._servers]
        with ThreadPoolExecutor(max_workers=_STARTS_AT_ONCE) as pool:
            started = [(_key(c), pool.submit(self._start, c)) for c in waiting]
        for key, future in started:
            if future.exception() is None:
                self._servers[key] = future.result()

    def _start(self, configuration: Configuration) -> Server:
        began = time.monotonic()
        server = self._runtime.start(configuration)
        self._start_times.append(time.monotonic() - began)
        return server

    def first_use(self, server: Server) -> bool:
        """True once for each server process: it is then still cold."""
        cold = id(server) not in self._used
        self._used.add(id(server))
        return cold

    def start_seconds(self) -> float:
        """Mean time of a start so far; 5 s before the first."""
        return sum(self._start_times) / len(self._start_times) if self._start_times else 5.0

    def discard(self, configuration: Configuration) -> None:
        """Stop one configuration's server (it failed); the next use starts a new process."""
        server = self._servers.pop(_key(configuration), None)
        if server is not None:
            server.stop()

    def fresh_start(self) -> None:
        """Stop all servers; the next use of each configuration starts a new process."""
        servers, self._servers, self._used = list(self._servers.values()), {}, set()
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(lambda server: server.stop(), servers))

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.fresh_start()
