"""POST /v1/completions."""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from rooftune.engine.server.answer import Choice
from rooftune.engine.server.chat import finite
from rooftune.engine.server.fields import CompletionBody
from rooftune.engine.server.prompts import TextModel
from rooftune.engine.server.reply import Reply
from rooftune.engine.server.service import Service
from rooftune.engine.server.text import Piece, TextLogprob

DEFAULT_TOKENS = 16
"""OpenAI's default of max_tokens on this endpoint."""


class CompletionShape:
    """Choices as plain text."""

    whole_object = "text_completion"
    chunk_object = "text_completion"

    def __init__(self, model: TextModel, alternatives: int | None) -> None:
        self._tokenizer = model.tokenizer
        self._alternatives = alternatives

    def whole(self, choice: Choice, text: str, logprobs: list[TextLogprob]) -> dict[str, Any]:
        return self._choice(choice, text, logprobs)

    def chunk(self, choice: Choice, piece: Piece, first: bool) -> dict[str, Any]:
        return self._choice(choice, piece.text, piece.logprobs)

    def _choice(self, choice: Choice, text: str, logprobs: list[TextLogprob]) -> dict[str, Any]:
        return {
            "index": choice.index,
            "text": text,
            "logprobs": self._columns(logprobs),
            "finish_reason": choice.finish,
        }

    def _columns(self, logprobs: list[TextLogprob]) -> dict[str, Any] | None:
        if self._alternatives is None:
            return None
        name = self._tokenizer.token_text
        top: list[dict[str, float]] | None = None
        if self._alternatives:
            top = []
            for entry in logprobs:
                best: dict[str, float] = {}
                # Different tokens can have one text: the likelier one is kept. The chosen one is always there.
                for token, value in (*entry.logprob.top, (entry.logprob.token, entry.logprob.logprob)):
                    best.setdefault(name(token), finite(value))
                top.append(best)
        return {
            "tokens": [name(entry.logprob.token) for entry in logprobs],
            "token_logprobs": [finite(entry.logprob.logprob) for entry in logprobs],
            "top_logprobs": top,
            "text_offset": [entry.offset for entry in logprobs],
        }


async def completions(request: Request) -> Response:
    arrived_ns = time.monotonic_ns()
    service: Service = request.app.state.service
    body = await service.read(request, CompletionBody)
    prompts = await service.model.completion_prompts(body.prompts, body.add_special_tokens)
    limits = [service.model.output_limit(len(prompt), body.max_tokens, DEFAULT_TOKENS) for prompt in prompts]
    id, answer = service.submit("cmpl", body, prompts, limits, body.logprobs, arrived_ns)
    shape = CompletionShape(service.model, body.logprobs)
    return await Reply(id, service.model.name, body, answer, shape).send(request)
