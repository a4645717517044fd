"""The servers of the arms: started when first needed, one a configuration, and all stopped together.

A *start* is a set of fresh server processes. Runs of one start share its servers; a new start replaces them all, so
that start-to-start variation is part of what a comparison sees (nested starts).
"""

from __future__ import annotations

import json
from types import TracebackType

from rooftune.runtimes.contract import Runtime, Server
from rooftune.spec import Configuration


class Fleet:
    """Owns every server that the loop starts. Use as a context manager: nothing is left running after it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._servers: dict[str, Server] = {}
        self.starts = 0

    def server(self, configuration: Configuration) -> Server:
        """The running server of a configuration, started now if there is none in this start."""
        key = json.dumps(configuration, sort_keys=True)
        server = self._servers.get(key)
        if server is None:
            server = self._runtime.start(configuration)
            self._servers[key] = server
            self.starts += 1
        return server

    def fresh_start(self) -> None:
        """Stop all servers; the next use of each configuration starts a new process."""
        servers, self._servers = list(self._servers.values()), {}
        for server in servers:
            server.stop()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.fresh_start()
