"""The servers of the arms: started when first needed, one a configuration, and all stopped together.

A *start* is a set of fresh server processes. Runs of one start share its servers; a new start replaces them all, so
that start-to-start variation is part of what a comparison sees (nested starts).
"""

from __future__ import annotations

import json
import time
from types import TracebackType

from rooftune.runtimes.contract import Runtime, Server
from rooftune.spec import Configuration


class Fleet:
    """Owns every server that the loop starts. Use as a context manager: nothing is left running after it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._servers: dict[str, Server] = {}
        self._start_times: list[float] = []

    def server(self, configuration: Configuration) -> Server:
        """The running server of a configuration, started now if there is none in this start."""
        key = json.dumps(configuration, sort_keys=True)
        server = self._servers.get(key)
        if server is None:
            began = time.monotonic()
            server = self._runtime.start(configuration)
            self._start_times.append(time.monotonic() - began)
            self._servers[key] = server
        return server

    def start_seconds(self) -> float:
        """Mean time of a start so far; 5 s before the first."""
        return sum(self._start_times) / len(self._start_times) if self._start_times else 5.0

    def discard(self, configuration: Configuration) -> None:
        """Stop one configuration's server (it failed); the next use starts a new process."""
        server = self._servers.pop(json.dumps(configuration, sort_keys=True), None)
        if server is not None:
            server.stop()

    def fresh_start(self) -> None:
        """Stop all servers; the next use of each configuration starts a new process."""
        servers, self._servers = list(self._servers.values()), {}
        for server in servers:
            server.stop()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.fresh_start()
