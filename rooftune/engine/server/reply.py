"""An answer as one JSON object or as a stream of server-sent events."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rooftune.engine.server.answer import Answer, Choice
from rooftune.engine.server.bridge import ClientGone
from rooftune.engine.server.errors import ApiError
from rooftune.engine.server.fields import Generation
from rooftune.engine.server.text import Piece, TextLogprob

_DONE = b"data: [DONE]\n\n"


class Shape(Protocol):
    """How one endpoint writes a choice."""

    whole_object: str
    chunk_object: str

    def whole(self, choice: Choice, text: str, logprobs: list[TextLogprob]) -> dict[str, Any]:
        """A finished choice of an answer that is not streamed."""
        ...

    def chunk(self, choice: Choice, piece: Piece, first: bool) -> dict[str, Any]:
        """A choice in a chunk of a stream."""
        ...


@dataclass(slots=True)
class Reply:
    """Writes one answer in the way that its client asked for."""

    id: str
    model: str
    body: Generation
    answer: Answer
    shape: Shape

    async def send(self, request: Request) -> Response:
        return _EventStream(self) if self.body.stream else await self._whole(request)

    async def _whole(self, request: Request) -> Response:
        texts = ["" for _ in self.answer.choices]
        logprobs: list[list[TextLogprob]] = [[] for _ in self.answer.choices]
        async with aclosing(self.answer.pieces(request.receive)) as steps:
            async for step in steps:
                for choice, piece in step:
                    texts[choice.index] += piece.text
                    logprobs[choice.index] += piece.logprobs
        choices = [
            self.shape.whole(choice, texts[choice.index], logprobs[choice.index])
            for choice in self.answer.choices
        ]
        content = self._envelope(self.shape.whole_object, int(time.time()), choices)
        content |= {"usage": self.answer.usage(), "rooftune": self.answer.timings()}
        return Response(_json(content), media_type="application/json")

    def _envelope(self, kind: str, created: int, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": created, "model": self.model, "choices": choices}


class _EventStream(Response):
    """Server-sent events, one write per engine step. The iterator is closed in every case, which frees the pages."""

    media_type = "text/event-stream"

    def __init__(self, reply: Reply) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._reply = reply
        self._created = int(time.time())
        self._begun: set[int] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = self._reply
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            try:
                async with aclosing(reply.answer.pieces(receive)) as steps:
                    async for step in steps:
                        events = b"".join(self._event(choice, piece) for choice, piece in step)
                        if events:
                            await send({"type": "http.response.body", "body": events, "more_body": True})
                last = self._usage_event() + _DONE
            except ApiError as problem:
                # The status is sent already: the error goes into the stream, and no [DONE] follows a broken answer.
                last = b"data: " + _json(problem.body()) + b"\n\n"
            except ClientGone:
                return
            await send({"type": "http.response.body", "body": last, "more_body": False})
        finally:
            reply.answer.close()

    def _event(self, choice: Choice, piece: Piece) -> bytes:
        if not (piece.text or piece.logprobs or choice.finish):
            return b""
        first = choice.index not in self._begun
        self._begun.add(choice.index)
        return self._chunk(
            [self._reply.shape.chunk(choice, piece, first)], self._reply.body.usage_in_every_chunk
        )

    def _usage_event(self) -> bytes:
        if not self._reply.body.include_usage:
            return b""
        return self._chunk([], True, {"rooftune": self._reply.answer.timings()})

    def _chunk(
        self, choices: list[dict[str, Any]], usage: bool, more: Mapping[str, Any] | None = None
    ) -> bytes:
        reply = self._reply
        content = reply._envelope(reply.shape.chunk_object, self._created, choices)
        if usage:
            content["usage"] = reply.answer.usage()
        elif reply.body.include_usage:
            content["usage"] = None
        content |= more or {}
        return b"data: " + _json(content) + b"\n\n"


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
