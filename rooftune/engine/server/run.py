"""A server process: bind, load, serve until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.metadata
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from rooftune.engine.contracts import EngineConfig
from rooftune.engine.engine import Engine
from rooftune.engine.model.load import LoadedModel
from rooftune.engine.server.app import build_app
from rooftune.engine.server.binding import cannot_bind
from rooftune.engine.server.bridge import Bridge
from rooftune.engine.server.prompts import TextModel
from rooftune.engine.server.service import Limits, Service
from rooftune.errors import EnvironmentProblem, WrongInput

logger = logging.getLogger(__name__)

GRACE = 5
"""Seconds that running answers get after the first signal."""
SWITCH_INTERVAL = 0.0005
"""Seconds that the event loop or the engine's thread waits for the other's Python code (the default is 0.005)."""


def build_service(
    loaded: LoadedModel, config: EngineConfig, api_key: str | None = None, limits: Limits | None = None
) -> tuple[Service, Engine]:
    """Engine (not yet started) and service around a loaded model. Raises WrongInput for an impossible configuration."""
    if loaded.runner.maximum_context < 2:
        raise WrongInput(
            f"{loaded.source.name}: a context of {loaded.runner.maximum_context} tokens is too short"
        )
    bridge = Bridge()
    try:
        engine = Engine(
            loaded.runner, config, bridge.on_step, namespace=f"{loaded.source.name}:{config.weight_kernel}"
        )
    except (MemoryError, RuntimeError) as problem:
        if isinstance(problem, RuntimeError) and "allocate" not in str(problem):
            raise
        raise EnvironmentProblem(
            f"not enough memory for a KV pool of {config.pool_tokens} tokens; lower pool_tokens"
        ) from None
    model = TextModel(
        name=loaded.source.name,
        tokenizer=loaded.tokenizer,
        template=loaded.template,
        vocabulary=loaded.runner.vocabulary,
        longest=engine.longest_sequence,
        ends=frozenset(loaded.shape.eos),
    )
    service = Service(
        engine=engine,
        config=config,
        model=model,
        describe=loaded.runner.describe,
        bridge=bridge,
        version=importlib.metadata.version("rooftune"),
        api_key=api_key,
        limits=limits or Limits(),
    )
    return service, engine


class _Uvicorn(uvicorn.Server):
    """Uvicorn whose signals are handled here, and which tells when it answers."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    def stop(self) -> None:
        """First call: finish what runs, within the grace time. Second call: at once."""
        self.force_exit = self.should_exit
        self.should_exit = True


class Running:
    """A service on a socket: ``serve`` blocks until ``stop``, which may be called from any thread."""

    def __init__(self, service: Service, engine: Engine, bound: socket.socket) -> None:
        self._service = service
        self._engine = engine
        self._bound = bound
        self._server: _Uvicorn | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def serve(self, on_ready: Callable[[], None], signals: bool = True) -> None:
        """Serve until stopped. ``signals``: SIGINT and SIGTERM stop it (main thread only)."""
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(self._serve(on_ready, signals))

    def stop(self) -> None:
        if self._loop is not None and self._server is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._server.stop)

    async def _serve(self, on_ready: Callable[[], None], signals: bool) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._bound.listen(2048)
        except OSError as problem:
            host, port = self._bound.getsockname()[:2]
            raise cannot_bind(host, port, problem) from None
        self._service.bridge.attach(self._engine, loop)
        server = _Uvicorn(_uvicorn_config(build_app(self._service)), on_ready)
        self._loop, self._server = loop, server
        if signals:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, server.stop)
        self._engine.start()
        try:
            await server.serve(sockets=[self._bound])
        finally:
            await self._stop_engine()

    async def _stop_engine(self) -> None:
        """Wait for the engine's last step, but not for ever: its thread is a daemon and cannot hold the process."""
        stopper = threading.Thread(target=self._engine.stop, name="rooftune-engine-stop", daemon=True)
        stopper.start()
        deadline = time.monotonic() + GRACE
        while stopper.is_alive() and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        if stopper.is_alive():
            logger.error("the engine's last step did not end within %d s; leaving without it", GRACE)


def _uvicorn_config(app: ASGIApp) -> uvicorn.Config:
    # Keep-alive outlasts the pauses of usual clients: a connection that closes under a new request is an error there.
    return uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE,
    )


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:  # not made for every system; asyncio's own loop serves as well
        return None
    return uvloop.new_event_loop


def tune_process() -> None:
    """Settings of the interpreter for a process that only serves."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    # Loaded weights and modules never become garbage: later collections need not walk them.
    gc.collect()
    gc.freeze()
