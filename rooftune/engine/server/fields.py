"""Request bodies: known fields with their types and bounds, and fields that are accepted only while they ask nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from rooftune.engine.server.errors import ApiError, bad_request
from rooftune.spec.nearest import nearest

Token = Annotated[int, Field(ge=0, lt=2**31)]
StopString = Annotated[str, Field(min_length=1, max_length=256)]

_ANYTHING: Callable[[Any], bool] = lambda value: True  # noqa: E731
_EMPTY: Callable[[Any], bool] = lambda value: not value  # noqa: E731


def _only(*allowed: Any) -> Callable[[Any], bool]:
    return lambda value: any(value == one and type(value) in (type(one), int, float) for one in allowed)


_RULES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    # For bookkeeping on the other side; they change no answer.
    ("user metadata store service_tier safety_identifier prompt_cache_key request_id", _ANYTHING, ""),
    # Ways of sampling and formats that this server does not have.
    ("presence_penalty frequency_penalty min_p", _only(0), "0"),
    ("repetition_penalty length_penalty best_of", _only(1), "1"),
    ("logit_bias tools functions chat_template_kwargs bad_words prompt_logprobs", _EMPTY, "nothing"),
    ("truncate_prompt_tokens cache_salt documents suffix", _EMPTY, "nothing"),
    ("echo use_beam_search include_stop_str_in_output continue_final_message", _only(False), "false"),
    ("return_tokens_as_token_ids return_token_ids", _only(False), "false"),
    ("skip_special_tokens spaces_between_special_tokens add_generation_prompt", _only(True), "true"),
    ("parallel_tool_calls detokenize", _only(True), "true"),
    ("tool_choice function_call", _only("none", "auto"), '"none"'),
    ("response_format", _only({"type": "text"}), '{"type": "text"}'),
    ("modalities", _only(["text"]), '["text"]'),
)
_NEUTRAL = {name: (allowed, neutral) for names, allowed, neutral in _RULES for name in names.split()}
"""Field -> whether a value asks nothing, and how to write the value that asks nothing."""


class Body(BaseModel):
    """Base of all bodies: exact types, unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class StreamOptions(Body):
    include_usage: bool = False
    continuous_usage_stats: bool = False
    """Usage in every chunk, not only in the last: tells how many tokens each chunk brought."""


class Generation(Body):
    """What chat and completions share."""

    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=-1)] = 0
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    n: Annotated[int, Field(ge=1, le=64)] = 1
    stop: StopString | Annotated[list[StopString], Field(max_length=16)] = Field(default_factory=list)
    stop_token_ids: Annotated[list[Token], Field(max_length=64)] = Field(default_factory=list)
    ignore_eos: bool = False
    min_tokens: Annotated[int, Field(ge=0)] = 0
    priority: Annotated[int, Field(ge=-(2**31), lt=2**31)] = 0

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def usage_in_every_chunk(self) -> bool:
        return self.stream_options is not None and self.stream_options.continuous_usage_stats


class TextPart(Body):
    type: Literal["text"]
    text: str


class Message(Body):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    name: str | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    refusal: None = None
    audio: None = None
    function_call: None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    tool_calls: Annotated[list[Any], Field(max_length=0)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Message:
        if self.content is None and self.role != "assistant":
            raise ValueError("a message needs 'content'")
        return self

    def plain(self) -> dict[str, str]:
        """As chat templates take it: role and text; the developer role is the system's newer name."""
        text = self.content if isinstance(self.content, str) else "".join(p.text for p in self.content or ())
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


class ChatBody(Generation):
    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=20)] = 0

    @property
    def alternatives(self) -> int | None:
        return self.top_logprobs if self.logprobs else None


class CompletionBody(Generation):
    prompt: str | list[str | list[Token]] | list[Token]
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    add_special_tokens: bool = True

    @field_validator("prompt")
    @classmethod
    def _not_empty(cls, prompt: Any) -> Any:
        if not prompt and not isinstance(prompt, str):
            raise ValueError("the list of prompts is empty")
        return prompt

    @property
    def prompts(self) -> list[str | list[int]]:
        if isinstance(self.prompt, str):
            return [self.prompt]
        tokens = [item for item in self.prompt if isinstance(item, int)]
        return [tokens] if tokens else [item for item in self.prompt if not isinstance(item, int)]


class TokenizeBody(Body):
    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[Message], Field(min_length=1)] | None = None
    add_special_tokens: bool = True
    add_generation_prompt: bool = True
    return_token_strs: bool = False


class DetokenizeBody(Body):
    model: str | None = None
    tokens: list[Token]


Kind = TypeVar("Kind", bound=Body)


def parse(kind: type[Kind], raw: bytes) -> Kind:
    """A checked body. Raises ApiError 400 that names the field and what to change."""
    try:
        values = json.loads(raw)
        if b"\\u" in raw:
            # Half of a surrogate pair is JSON, but no text.
            json.dumps(values, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise bad_request("the body is not valid JSON in UTF-8") from None
    if not isinstance(values, dict):
        raise bad_request("the body must be a JSON object")
    asked = {}
    for name, value in values.items():
        if value is None:
            continue
        if name not in kind.model_fields and name in _NEUTRAL:
            allowed, neutral = _NEUTRAL[name]
            if not allowed(value):
                raise bad_request(
                    f"'{name}' is not supported; leave it out or set it to {neutral}",
                    name,
                    "unsupported_parameter",
                )
            continue
        asked[name] = value
    try:
        return kind.model_validate(asked)
    except ValidationError as problem:
        raise _explain(problem, kind) from None


def _is_field(part: str) -> bool:
    """Not one of the marks by which pydantic tells alternatives apart."""
    return part.isidentifier() and part not in ("str", "int")


def _explain(problem: ValidationError, kind: type[Body]) -> ApiError:
    errors = problem.errors(include_url=False, include_input=False)
    # Of the alternatives of a field, the one that matched furthest tells best what is wrong.
    furthest = max(errors, key=lambda e: len(e["loc"]))
    error = next((e for e in errors if e["type"] == "extra_forbidden"), furthest)
    names = [part for part in error["loc"] if isinstance(part, int) or _is_field(part)]
    param = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in names).lstrip(".")[:200]
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
        return bad_request(
            f"unknown field '{param}'{nearest(param, kind.model_fields)}", param, "unknown_parameter"
        )
    if error["type"] == "extra_forbidden":
        return bad_request(f"unknown field '{param}'", param, "unknown_parameter")
    if error["type"] == "missing":
        return bad_request(f"'{param}' is missing", param, "missing_required_parameter")
    message = error["msg"].removeprefix("Value error, ")
    return bad_request(f"'{param}': {message}", param, "invalid_value")
