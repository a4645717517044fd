"""POST /v1/chat/completions."""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from rooftune.engine.server.answer import Choice
from rooftune.engine.server.errors import bad_request
from rooftune.engine.server.fields import ChatBody
from rooftune.engine.server.prompts import TextModel, TokenizerPort
from rooftune.engine.server.reply import Reply
from rooftune.engine.server.service import Service
from rooftune.engine.server.text import Piece, TextLogprob


class ChatShape:
    """Choices as chat messages; the first chunk of each choice carries the role."""

    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def __init__(self, model: TextModel, logprobs: bool) -> None:
        self._tokenizer = model.tokenizer
        self._logprobs = logprobs

    def whole(self, choice: Choice, text: str, logprobs: list[TextLogprob]) -> dict[str, Any]:
        return {
            "index": choice.index,
            "message": {"role": "assistant", "content": text},
            "logprobs": self._content(logprobs),
            "finish_reason": choice.finish,
        }

    def chunk(self, choice: Choice, piece: Piece, first: bool) -> dict[str, Any]:
        delta = {"role": "assistant", "content": piece.text} if first else {"content": piece.text}
        if choice.finish is not None and not piece.text and not first:
            delta = {}
        return {
            "index": choice.index,
            "delta": delta,
            "logprobs": self._content(piece.logprobs),
            "finish_reason": choice.finish,
        }

    def _content(self, logprobs: list[TextLogprob]) -> dict[str, Any] | None:
        if not self._logprobs:
            return None
        return {
            "content": [
                {
                    **_entry(self._tokenizer, entry.logprob.token, entry.logprob.logprob),
                    "top_logprobs": [
                        _entry(self._tokenizer, token, value) for token, value in entry.logprob.top
                    ],
                }
                for entry in logprobs
            ]
        }


def _entry(tokenizer: TokenizerPort, token: int, logprob: float) -> dict[str, Any]:
    text = tokenizer.token_text(token)
    raw = tokenizer.token_bytes(token)
    return {
        "token": text,
        "logprob": finite(logprob),
        "bytes": list(text.encode() if raw is None else raw),
    }


def finite(logprob: float) -> float:
    """JSON has no infinity; -9999 is what OpenAI gives for a token that cannot occur."""
    return max(logprob, -9999.0)


async def chat(request: Request) -> Response:
    arrived_ns = time.monotonic_ns()
    service: Service = request.app.state.service
    body = await service.read(request, ChatBody)
    if body.top_logprobs and not body.logprobs:
        raise bad_request("'top_logprobs' needs 'logprobs': true", "top_logprobs")
    if (
        None not in (body.max_tokens, body.max_completion_tokens)
        and body.max_tokens != body.max_completion_tokens
    ):
        raise bad_request("'max_tokens' and 'max_completion_tokens' differ; give one of them", "max_tokens")
    prompt = await service.model.encode_chat(body.messages)
    asked = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    limit = service.model.output_limit(len(prompt), asked, None)
    id, answer = service.submit("chatcmpl", body, [tuple(prompt)], [limit], body.alternatives, arrived_ns)
    return await Reply(id, service.model.name, body, answer, ChatShape(service.model, body.logprobs)).send(
        request
    )
