"""Requests as clients write them to token ids, and what of a model the server needs for that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from rooftune.engine.server.errors import bad_request
from rooftune.engine.server.fields import Message
from rooftune.engine.server.text import Decoder
from rooftune.errors import WrongInput

_LONG_TEXT = 8192
"""Characters from which tokenizing leaves the event loop: below, it takes less than a millisecond or two."""

Result = TypeVar("Result")


class TokenizerPort(Protocol):
    def encode(self, text: str, add_bos: bool | None = None) -> list[int]: ...

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str: ...

    def token_text(self, token: int) -> str: ...

    def token_bytes(self, token: int) -> bytes | None: ...

    def stream(self, skip_special: bool = True) -> Decoder: ...


class TemplatePort(Protocol):
    def render(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True) -> str: ...


@dataclass(frozen=True, slots=True)
class TextModel:
    """The served model seen from its text side.

    longest: most tokens, prompt and output together, that one request may have; ends: tokens that end an answer.
    """

    name: str
    tokenizer: TokenizerPort
    template: TemplatePort | None
    vocabulary: int
    longest: int
    ends: frozenset[int]

    async def encode(self, text: str, add_special: bool = True) -> list[int]:
        """Token ids of a raw prompt; special tokens in front only where the model wants them."""
        return await self._off_loop(
            len(text), lambda: self.tokenizer.encode(text, None if add_special else False)
        )

    async def encode_chat(self, messages: Sequence[Message], add_generation_prompt: bool = True) -> list[int]:
        """Token ids of a conversation in the model's own chat format. Raises ApiError 400 where it has none."""
        template = self.template
        if template is None:
            raise bad_request(
                "this model has no chat template; use /v1/completions", "messages", "no_chat_template"
            )
        plain = [message.plain() for message in messages]

        def render() -> list[int]:
            return self.tokenizer.encode(template.render(plain, add_generation_prompt))

        try:
            return await self._off_loop(sum(len(message["content"]) for message in plain), render)
        except WrongInput as problem:
            raise bad_request(str(problem), "messages") from None

    async def completion_prompts(
        self, prompts: Sequence[str | list[int]], add_special: bool
    ) -> list[tuple[int, ...]]:
        """Token ids of each prompt of /v1/completions."""
        result = []
        for prompt in prompts:
            if isinstance(prompt, str):
                tokens = await self.encode(prompt, add_special)
            else:
                tokens = prompt
                self.check_tokens(tokens, "prompt")
            if not tokens:
                raise bad_request("the prompt is empty; at least one token is needed", "prompt")
            result.append(tuple(tokens))
        return result

    def check_tokens(self, tokens: Sequence[int], param: str) -> None:
        """Raise ApiError 400 for a token id that the model does not have."""
        outside = next((token for token in tokens if token >= self.vocabulary), None)
        if outside is not None:
            raise bad_request(
                f"token {outside} is outside the vocabulary of {self.vocabulary} tokens",
                param,
                "invalid_value",
            )

    def output_limit(self, prompt_tokens: int, asked: int | None, default: int | None) -> int:
        """Most tokens to generate. Raises ApiError 400 when prompt and output cannot fit together.

        ``default``: what holds when the client asks for nothing, None for all that fits.
        """
        room = self.longest - prompt_tokens
        if room < 1 or (asked is not None and asked > room):
            wanted = f" and {asked} more are asked for" if asked is not None and room >= 1 else ""
            raise bad_request(
                f"the prompt has {prompt_tokens} tokens{wanted}, but prompt and output together may have at most "
                f"{self.longest}; shorten the prompt or ask for fewer tokens",
                "max_tokens" if wanted else "prompt",
                "context_length_exceeded",
            )
        if asked is not None:
            return asked
        return room if default is None else min(room, default)

    @staticmethod
    async def _off_loop(size: int, work: Callable[[], Result]) -> Result:
        if size < _LONG_TEXT:
            return work()
        return await asyncio.get_running_loop().run_in_executor(None, work)
