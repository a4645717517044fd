"""Prompts from files: JSON lines of OpenAI requests, and ShareGPT conversations."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rooftune.errors import WrongInput
from rooftune.workload.prompts.contract import Prompt

_LARGEST_SHAREGPT = 1 << 30
_LONGEST_LINE = 16 << 20
_NOT_BODY = frozenset(
    {"messages", "prompt", "max_tokens", "max_completion_tokens", "model", "stream", "stream_options", "n"}
)
_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bard": "assistant",
    "bing": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "system": "system",
}


def jsonl_prompts(path: str, count: int, seed: str) -> list[Prompt]:
    """A seeded sample of a file with one OpenAI request a line (bare, or under "body" as in a batch file).

    Read line by line (reservoir sampling, Vitter's algorithm R), so the file's size does not matter. A file with
    fewer requests than asked is used again from its start; the schedule says how many prompts repeat.
    """
    draw = random.Random(seed)
    kept: list[tuple[int, Prompt]] = []
    for seen, (number, line) in enumerate(_lines(path)):
        prompt = _openai_request(line, path, number)
        if len(kept) < count:
            kept.append((seen, prompt))
        else:
            slot = draw.randrange(seen + 1)
            if slot < count:
                kept[slot] = (seen, prompt)
    if not kept:
        raise WrongInput(f"{path}: holds no request")
    kept.sort(key=lambda pair: pair[0])
    return _cycle([prompt for _, prompt in kept], count)


def sharegpt_prompts(path: str, count: int, seed: str) -> list[Prompt]:
    """The first question of each conversation of a ShareGPT file (JSON list, or JSON lines), a seeded sample.

    The output length that a prompt suggests is that of the recorded answer, at 4 characters a token (approximate).
    """
    found = []
    for conversation in _conversations(path):
        turns = (
            conversation.get("conversations") or conversation.get("conversation") or conversation.get("items")
        )
        prompt = _first_exchange(turns) if isinstance(turns, list) else None
        if prompt is not None:
            found.append(prompt)
    if not found:
        raise WrongInput(f"{path}: holds no ShareGPT conversation (a list of objects with 'conversations')")
    random.Random(seed).shuffle(found)
    return _cycle(found[:count], count)


def _cycle(prompts: list[Prompt], count: int) -> list[Prompt]:
    return [prompts[i % len(prompts)] for i in range(count)]


def _lines(path: str) -> Iterator[tuple[int, str]]:
    try:
        with Path(path).open(encoding="utf-8") as stream:
            number = 0
            while True:
                line = stream.readline(_LONGEST_LINE)
                if not line:
                    return
                number += 1
                if len(line) == _LONGEST_LINE:
                    raise WrongInput(f"{path} line {number}: longer than 16 MiB, which no request is")
                if line.strip():
                    yield number, line
    except FileNotFoundError:
        raise WrongInput(f"{path}: no such file") from None
    except UnicodeDecodeError:
        raise WrongInput(f"{path}: not UTF-8 text") from None
    except OSError as problem:
        raise WrongInput(f"{path}: cannot be read ({problem.strerror or problem})") from None


def _openai_request(line: str, path: str, number: int) -> Prompt:
    try:
        value = json.loads(line)
    except ValueError as problem:
        raise WrongInput(f"{path} line {number}: not JSON ({problem})") from None
    body: Any = value.get("body", value) if isinstance(value, dict) else None
    if not isinstance(body, dict):
        raise WrongInput(f"{path} line {number}: not a request (an object with 'messages' or 'prompt')")
    messages, prompt = body.get("messages"), body.get("prompt")
    if isinstance(messages, list) and messages and all(isinstance(m, dict) for m in messages):
        prompt = None
    elif isinstance(prompt, str):
        messages = None
    else:
        raise WrongInput(f"{path} line {number}: has neither 'messages' (a list) nor 'prompt' (text)")
    maximum = body.get("max_completion_tokens", body.get("max_tokens"))
    if maximum is not None and (isinstance(maximum, bool) or not isinstance(maximum, int) or maximum < 1):
        raise WrongInput(f"{path} line {number}: max_tokens must be a whole number above 0")
    return Prompt(
        messages=tuple(messages) if messages is not None else None,
        prompt=prompt,
        output_tokens=maximum,
        body={key: value for key, value in body.items() if key not in _NOT_BODY},
    )


def _conversations(path: str) -> Iterator[dict[str, Any]]:
    file = Path(path)
    try:
        size = file.stat().st_size
        with file.open(encoding="utf-8") as stream:
            first = next((c for c in iter(lambda: stream.read(1), "") if not c.isspace()), "")
    except FileNotFoundError:
        raise WrongInput(f"{path}: no such file") from None
    except UnicodeDecodeError:
        raise WrongInput(f"{path}: not UTF-8 text") from None
    except OSError as problem:
        raise WrongInput(f"{path}: cannot be read ({problem.strerror or problem})") from None
    if first == "{":
        for number, line in _lines(path):
            try:
                value = json.loads(line)
            except ValueError as problem:
                raise WrongInput(f"{path} line {number}: not JSON ({problem})") from None
            if isinstance(value, dict):
                yield value
        return
    if size > _LARGEST_SHAREGPT:
        raise WrongInput(
            f"{path}: a JSON list of {size >> 20} MiB; give it as JSON lines, which are read one by one"
        )
    try:
        values = json.loads(file.read_bytes())
    except ValueError as problem:
        raise WrongInput(f"{path}: not JSON ({problem})") from None
    if not isinstance(values, list):
        raise WrongInput(f"{path}: a ShareGPT file is a list of conversations")
    yield from (value for value in values if isinstance(value, dict))


def _first_exchange(turns: list[Any]) -> Prompt | None:
    messages: list[dict[str, Any]] = []
    for turn in turns:
        if not isinstance(turn, dict):
            return None
        role = _ROLES.get(str(turn.get("from", turn.get("role", ""))).lower())
        text = turn.get("value", turn.get("content"))
        if role is None or not isinstance(text, str) or not text.strip():
            return None
        if role == "assistant":
            if not messages or messages[-1]["role"] != "user":
                return None
            return Prompt(messages=tuple(messages), output_tokens=min(2048, max(1, len(text) // 4)))
        messages.append({"role": role, "content": text})
    return None
