"""Between the engine's thread and the server's event loop: requests in, outputs back, one message per step."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from rooftune.engine.contracts import EngineConfig, GenerationRequest, RequestOutput
from rooftune.engine.stats import EngineStats, StepRecord


class EnginePort(Protocol):
    """What the server needs of an engine. All methods may be called from any thread."""

    config: EngineConfig

    def submit(self, request: GenerationRequest) -> None:
        """Queue a request; RequestRefused, QueueFull or EngineStopped if it is not taken."""
        ...

    def abort(self, id: str) -> None:
        """End a request in whatever state it is; unknown ids are ignored. Its last output says "abort"."""
        ...

    def stats(self) -> EngineStats: ...

    def ledger(self) -> list[dict[str, Any]]: ...

    def healthy(self, limit: float) -> tuple[bool, str]:
        """False, with the reason, if work waits and ``limit`` seconds brought no step, or the engine is dead."""
        ...

    def steps_since(self, start_ns: int) -> Sequence[StepRecord]: ...

    def reset_prefix_cache(self) -> None:
        """Ask to forget all prefixes before the next step."""
        ...


class ClientGone(Exception):
    """The client hung up before the answer was complete."""


class Channel:
    """Outputs of the engine on their way to one client; lives in the event loop."""

    def __init__(self) -> None:
        self._outputs: list[RequestOutput] = []
        self._waiter: asyncio.Future[None] | None = None
        self._gone = False

    def deliver(self, output: RequestOutput) -> None:
        self._outputs.append(output)
        self._wake()

    def hang_up(self) -> None:
        """The client went away."""
        self._gone = True
        self._wake()

    async def receive(self) -> list[RequestOutput]:
        """Everything that came since the last call, at least one output. Raises ClientGone."""
        while not self._outputs and not self._gone:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._gone:
            raise ClientGone
        outputs, self._outputs = self._outputs, []
        return outputs

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Bridge:
    """Hands requests to the engine and its outputs to the channels that wait for them."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: EnginePort | None = None
        self._channels: dict[str, Channel] = {}

    def attach(self, engine: EnginePort, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop

    def on_step(self, outputs: list[RequestOutput]) -> None:
        """The engine's step listener; runs in the engine's thread."""
        if outputs and self._loop is not None:
            # A closed loop means that the server has ended: nobody waits for these outputs.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._deliver, outputs)

    def submit(self, requests: Sequence[GenerationRequest]) -> Channel:
        """All requests of one client, or none: those already queued are aborted when a later one is refused."""
        assert self._engine is not None
        channel = Channel()
        queued: list[str] = []
        try:
            for request in requests:
                # Registered first: the engine's thread may answer before submit returns.
                self._channels[request.id] = channel
                queued.append(request.id)
                self._engine.submit(request)
        except BaseException:
            self.abort(queued)
            raise
        return channel

    def stop(self, id: str) -> None:
        """End a request whose answer is complete for its client; its last output still comes."""
        assert self._engine is not None
        self._engine.abort(id)

    def abort(self, ids: Iterable[str]) -> None:
        """End requests whose answers nobody needs any more; nothing of them is delivered from now on."""
        assert self._engine is not None
        for id in ids:
            if self._channels.pop(id, None) is not None:
                self._engine.abort(id)

    @property
    def open(self) -> int:
        """Requests whose last output has not come yet."""
        return len(self._channels)

    def _deliver(self, outputs: list[RequestOutput]) -> None:
        for output in outputs:
            channel = self._channels.get(output.id)
            if channel is not None:
                if output.finish is not None:
                    del self._channels[output.id]
                channel.deliver(output)
