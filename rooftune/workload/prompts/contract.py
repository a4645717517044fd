"""What a prompt source gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]
CountTokens = Callable[[list[Message]], int]
"""Prompt tokens of a conversation as the server counts them, its chat template included."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request's content: a conversation or a plain prompt. ``output_tokens`` is what the source itself suggests."""

    messages: tuple[Message, ...] | None = None
    prompt: str | None = None
    output_tokens: int | None = None
    body: dict[str, Any] = field(default_factory=dict)
    input_tokens: int | None = None
    """Exact prompt tokens where they were counted by the server's own tokenizer."""
    session: int | None = None
