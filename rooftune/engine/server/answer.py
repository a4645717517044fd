"""One client's request on its way through the engine: submitted, read step by step, ended in every case."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from rooftune.engine.contracts import GenerationRequest, RequestOutput, SamplingParameters
from rooftune.engine.limits import EngineStopped, QueueFull, RequestRefused
from rooftune.engine.server.bridge import Bridge
from rooftune.engine.server.errors import bad_request, failed, overloaded, unavailable
from rooftune.engine.server.metrics import ServerMetrics
from rooftune.engine.server.prompts import TextModel
from rooftune.engine.server.text import Piece, TextStream

Receive = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked request in tokens: each prompt is answered ``n`` times. ``sampling`` is without seed and length."""

    id: str
    prompts: tuple[tuple[int, ...], ...]
    maximum_tokens: tuple[int, ...]
    sampling: SamplingParameters
    n: int = 1
    seed: int | None = None
    stops: tuple[str, ...] = ()
    priority: int = 0


@dataclass(slots=True)
class Choice:
    """One answer. ``finish``: stop or length for its client; ``ended``: the engine has given its last output."""

    index: int
    prompt: int
    id: str
    text: TextStream
    finish: str | None = None
    ended: bool = False
    cached_tokens: int = 0
    timings: Mapping[str, float] = field(default_factory=dict)
    last_ns: int | None = None


class Answer:
    """All choices of one request. Submits at once: a refusal is an ApiError before any byte of the answer."""

    def __init__(
        self, plan: Plan, model: TextModel, bridge: Bridge, metrics: ServerMetrics, arrived_ns: int
    ) -> None:
        self._bridge = bridge
        self._metrics = metrics
        self._arrived_ns = arrived_ns
        self._plan = plan
        self.choices: list[Choice] = []
        requests: list[GenerationRequest] = []
        for position, prompt in enumerate(plan.prompts):
            for copy in range(plan.n):
                index = len(requests)
                id = f"{plan.id}-{index}"
                sampling = replace(
                    plan.sampling,
                    maximum_tokens=plan.maximum_tokens[position],
                    seed=choice_seed(plan.seed, copy),
                )
                requests.append(GenerationRequest(id, prompt, sampling, plan.priority))
                stream = TextStream(model.tokenizer.stream(), plan.stops, sampling.stop_tokens)
                self.choices.append(Choice(index, position, id, stream))
        self._by_id = {choice.id: choice for choice in self.choices}
        try:
            self._channel = bridge.submit(requests)
        except QueueFull as problem:
            metrics.refused("queue_full")
            raise overloaded(str(problem)) from None
        except EngineStopped as problem:
            raise unavailable(str(problem)) from None
        except RequestRefused as problem:
            raise bad_request(str(problem)) from None

    async def pieces(self, receive: Receive) -> AsyncGenerator[list[tuple[Choice, Piece]], None]:
        """What the steps brought, until all choices are over. Raises ClientGone, or ApiError when the engine fails.

        Whatever happens to the caller, requests that are not over are aborted (close the iterator to be sure).
        """
        watcher = asyncio.create_task(self._watch(receive))
        try:
            while not all(choice.ended for choice in self.choices):
                # When the event loop is behind, several steps lie in one batch: a choice has one piece in it, which
                # agrees with the choice's state (finish reason, token count) at the end of the batch.
                batch: dict[int, Piece] = {}
                for output in await self._channel.receive():
                    choice = self._by_id[output.id]
                    piece = self._take(choice, output)
                    if piece is not None:
                        batch.setdefault(choice.index, Piece()).append(piece)
                if batch:
                    yield [(self.choices[index], piece) for index, piece in batch.items()]
            done = [(choice.finish or "error", choice.text.tokens, choice.timings) for choice in self.choices]
            self._metrics.answered(self.prompt_tokens, done, self._arrived_ns)
        finally:
            watcher.cancel()
            self.close()

    def close(self) -> None:
        """Abort what is not over; harmless when all is."""
        left = [choice.id for choice in self.choices if not choice.ended]
        if left:
            self._metrics.aborted(len(left))
        self._bridge.abort(left)
        for choice in self.choices:
            choice.ended = True

    @property
    def prompt_tokens(self) -> int:
        return sum(map(len, self._plan.prompts))

    def usage(self) -> dict[str, Any]:
        """Token counts as OpenAI gives them; each prompt counts once, however many choices it has."""
        cached = sum(
            self.choices[position * self._plan.n].cached_tokens for position in range(len(self._plan.prompts))
        )
        completion = sum(choice.text.tokens for choice in self.choices)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": self.prompt_tokens + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    def timings(self) -> dict[str, Any]:
        """Seconds in queue, prefill and decode; by choice when there are several."""
        if len(self.choices) == 1:
            return dict(self.choices[0].timings)
        return {"choices": [dict(choice.timings) for choice in self.choices]}

    async def _watch(self, receive: Receive) -> None:
        # A transport that fails here is a client that is gone, too.
        with suppress(OSError):
            while (await receive())["type"] != "http.disconnect":
                pass
        self._channel.hang_up()

    def _take(self, choice: Choice, output: RequestOutput) -> Piece | None:
        """Text that an output makes visible; None for what comes after a stop string."""
        if output.finish is not None:
            choice.ended = True
            choice.timings = output.timings
        choice.cached_tokens = max(choice.cached_tokens, output.cached_tokens)
        if choice.finish is not None:
            return None
        if output.finish == "error":
            raise failed(output.error or "the engine could not compute this request")
        if output.finish == "abort":
            raise unavailable(output.error or "the server is stopping")
        if output.tokens:
            self._clock(choice, len(output.tokens))
        piece = choice.text.push(output.tokens, output.logprobs, ended=output.finish == "stop")
        if piece.stopped:
            choice.finish = "stop"
            if not choice.ended:
                self._bridge.stop(choice.id)
        elif output.finish is not None:
            choice.finish = output.finish
            rest = choice.text.finish()
            piece.append(rest)
            if rest.stopped:
                choice.finish = "stop"
        return piece

    def _clock(self, choice: Choice, tokens: int) -> None:
        now = time.monotonic_ns()
        if choice.last_ns is None:
            self._metrics.first_token((now - self._arrived_ns) / 1e9)
        else:
            self._metrics.next_tokens((now - choice.last_ns) / 1e9, tokens)
        choice.last_ns = now


def choice_seed(seed: int | None, copy: int) -> int | None:
    """Seed of the n-th choice: the first is the request's own, so n = 1 gives the same text as the first of many."""
    if seed is None:
        return None
    if copy == 0:
        return seed % 2**63
    digest = hashlib.blake2b(f"{seed % 2**63}:{copy}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % 2**63
