"""The Schedule: absolute send times, prompts and lengths, decided before the run; seeded, saved, hashed."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.spec import Workload
from rooftune.spec.nearest import nearest
from rooftune.workload import arrivals
from rooftune.workload.prompts.builtin_chat import chat_prompts
from rooftune.workload.prompts.builtin_longdoc import longdoc_prompts
from rooftune.workload.prompts.contract import CountTokens, Message, Prompt
from rooftune.workload.prompts.files import jsonl_prompts, sharegpt_prompts
from rooftune.workload.prompts.synthetic import synthetic_prompts

FORMAT = "rooftune-schedule"
SOURCES = ("builtin:chat", "builtin:longdoc", "synthetic", "jsonl:FILE", "sharegpt:FILE")
_DEFAULT_OUTPUT_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Entry:
    """One request: when it is due and what it asks.

    offset_ns: from the start of the run (0 for all in a closed loop). fixed_output: the answer shall have exactly
    ``max_tokens`` tokens (`ignore_eos` where the server knows it). input_tokens: exact count, or None.
    """

    offset_ns: int
    messages: tuple[Message, ...] | None
    prompt: str | None
    max_tokens: int
    body: dict[str, Any] = field(default_factory=dict)
    fixed_output: bool = False
    input_tokens: int | None = None
    session: int | None = None

    def text(self) -> str:
        """All of the prompt's text in order, as a cache of prefixes sees it."""
        if self.prompt is not None:
            return self.prompt
        return "\x00".join(f"{m.get('role')}\x01{_content(m)}" for m in self.messages or ())


@dataclass(frozen=True, slots=True)
class Schedule:
    """``process`` is poisson, constant or concurrency. The hash is over everything that decides what is sent and when."""

    entries: tuple[Entry, ...]
    process: str
    rate: float | None
    users: int | None
    think: float
    seed: int
    source: str
    exact_lengths: bool | None
    """Whether synthetic lengths were fitted with the server's tokenizer; None for other sources."""
    repeated_prompts: int
    """Entries whose prompt came before in this schedule (a file with too few requests)."""
    hash: str

    @property
    def closed_loop(self) -> bool:
        return self.process == "concurrency"

    @property
    def duration(self) -> float | None:
        """Seconds from the start to the last send; None in a closed loop."""
        return None if self.closed_loop or not self.entries else self.entries[-1].offset_ns / 1e9

    def shared_prefix_share(self) -> float:
        """Share of prompt text (by characters) that begins like another prompt of this schedule.

        It bounds from above what a prefix cache that was empty before can reuse, but for the chat template's own
        tokens. Each text's longest common prefix with any other is with a neighbour in sorted order.
        """
        texts = sorted(entry.text() for entry in self.entries)
        if len(texts) < 2:
            return 0.0
        common = [_common_prefix(a, b) for a, b in pairwise(texts)]
        reusable = sum(max(left, right) for left, right in zip([0, *common], [*common, 0], strict=True))
        total = sum(map(len, texts))
        return reusable / total if total else 0.0

    def describe(self) -> dict[str, Any]:
        """What a run keeps of its workload."""
        return {
            "process": self.process,
            "rate": self.rate,
            "users": self.users,
            "think": self.think,
            "requests": len(self.entries),
            "source": self.source,
            "seed": self.seed,
            "exact_lengths": self.exact_lengths,
            "repeated_prompts": self.repeated_prompts,
            "fixed_output": bool(self.entries) and all(entry.fixed_output for entry in self.entries),
            "max_tokens": max((entry.max_tokens for entry in self.entries), default=None),
            "shared_prefix_share": self.shared_prefix_share(),
        }


def build_schedule(
    workload: Workload,
    *,
    requests: int,
    rate: float | None,
    seed: int,
    salt: str = "",
    count_tokens: CountTokens | None = None,
) -> Schedule:
    """Decide a whole run. The same arguments give the same schedule, on any machine.

    rate: requests per second of an open loop (None takes the workload's own number; ``rate: auto`` must have been
    settled by the caller). salt: a name for fresh prompts under the same seed. count_tokens: the server's tokenizer,
    for exact synthetic lengths.
    """
    if requests < 1:
        raise WrongInput("a schedule needs at least 1 request")
    process = workload.arrivals.process
    if process == "concurrency":
        rate = None
    elif rate is None:
        stated = workload.arrivals.rate
        if not isinstance(stated, int | float):
            raise WrongInput(
                "the rate 'auto' must be settled before a schedule is made; state a rate such as 4/s"
            )
        rate = float(stated)
    prompts, exact = _prompts(workload, requests, f"{seed}/{salt}", count_tokens)
    fixed = workload.prompts.output_tokens
    offsets = _offsets(process, requests, rate, seed, salt)
    entries = tuple(
        Entry(
            offset_ns=offset,
            messages=prompt.messages,
            prompt=prompt.prompt,
            max_tokens=fixed or prompt.output_tokens or _DEFAULT_OUTPUT_TOKENS,
            body={"temperature": 0.0, **prompt.body},
            fixed_output=fixed is not None,
            input_tokens=prompt.input_tokens,
            session=prompt.session,
        )
        for offset, prompt in zip(offsets, prompts, strict=True)
    )
    return _sealed(
        Schedule(
            entries=entries,
            process=process,
            rate=rate,
            users=workload.arrivals.users,
            think=workload.arrivals.think,
            seed=seed,
            source=workload.prompts.source,
            exact_lengths=exact,
            repeated_prompts=len(entries) - len({entry.text() for entry in entries}),
            hash="",
        )
    )


def warmup_schedule(schedule: Schedule, requests: int) -> Schedule:
    """Requests of the same kind to send before a run, with prompts that the run does not use."""
    longest = max(entry.max_tokens for entry in schedule.entries)
    lengths = [entry.input_tokens for entry in schedule.entries if entry.input_tokens is not None]
    seed = f"warm-up/{schedule.hash}"
    if schedule.source == "synthetic" and lengths:
        prompts, _ = synthetic_prompts(requests, seed, max(lengths), longest, None)
    elif schedule.source == "builtin:longdoc":
        prompts = longdoc_prompts(requests, seed, None)
    else:
        prompts = chat_prompts(requests, seed)
    entries = tuple(Entry(0, p.messages, p.prompt, min(longest, 32), {"temperature": 0.0}) for p in prompts)
    return _sealed(
        replace(
            schedule,
            entries=entries,
            process="concurrency",
            rate=None,
            users=min(requests, 2),
            think=0.0,
            exact_lengths=None,
            repeated_prompts=0,
            hash="",
        )
    )


def save_schedule(schedule: Schedule, path: str | Path) -> Path:
    """Write a schedule as JSON, whole or not at all."""
    place = Path(path)
    temporary = place.parent / f".{place.name}.{uuid.uuid4().hex[:8]}.partial"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as stream:
            json.dump({"format": FORMAT, "version": 1, "hash": schedule.hash, **_canonical(schedule)}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(place)
    except OSError as problem:
        temporary.unlink(missing_ok=True)
        raise EnvironmentProblem(f"{place} cannot be written: {problem.strerror or problem}") from problem
    return place


def load_schedule(path: str | Path) -> Schedule:
    """Read a saved schedule. Raises WrongInput where it is damaged or its hash does not fit its content."""
    place = Path(path)
    try:
        raw = json.loads(place.read_bytes())
        if not isinstance(raw, dict) or raw.get("format") != FORMAT or raw.get("version") != 1:
            raise WrongInput(f"{place} is not a saved schedule")
        entries = tuple(
            Entry(**{**entry, "messages": None if entry["messages"] is None else tuple(entry["messages"])})
            for entry in raw["entries"]
        )
        names = (
            "process", "rate", "users", "think", "seed", "source", "exact_lengths", "repeated_prompts",
        )  # fmt: skip
        schedule = _sealed(Schedule(entries=entries, hash="", **{name: raw[name] for name in names}))
    except FileNotFoundError:
        raise WrongInput(f"{place}: no such schedule") from None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise WrongInput(f"{place}: damaged or not a schedule ({problem})") from None
    if schedule.hash != raw.get("hash"):
        raise WrongInput(f"{place}: its content does not fit its hash; it was changed or damaged")
    return schedule


def _offsets(process: str, requests: int, rate: float | None, seed: int, salt: str) -> list[int]:
    if process == "concurrency" or rate is None:
        return arrivals.closed_loop(requests)
    if process == "constant":
        return arrivals.constant(requests, rate)
    digest = hashlib.sha256(f"arrivals/{seed}/{salt}".encode()).digest()
    return arrivals.poisson(
        requests, rate, np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))
    )


def _prompts(
    workload: Workload, requests: int, seed: str, count_tokens: CountTokens | None
) -> tuple[list[Prompt], bool | None]:
    asked = workload.prompts
    source, _, file = asked.source.partition(":")
    if asked.source == "synthetic":
        if asked.input_tokens is None:
            raise WrongInput("prompts with source 'synthetic' need 'input_tokens', e.g. input_tokens: 256")
        return synthetic_prompts(requests, seed, asked.input_tokens, asked.output_tokens, count_tokens)
    if asked.source == "builtin:chat":
        if asked.input_tokens is not None:
            raise WrongInput(
                "builtin:chat has lengths of its own; take source 'synthetic' for a given input length"
            )
        return chat_prompts(requests, seed), None
    if asked.source == "builtin:longdoc":
        return longdoc_prompts(requests, seed, asked.input_tokens), None
    if source in ("jsonl", "sharegpt"):
        if not file:
            raise WrongInput(f"prompts '{asked.source}' names no file; write {source}:FILE")
        read = jsonl_prompts if source == "jsonl" else sharegpt_prompts
        return read(file, requests, seed), None
    raise WrongInput(f"unknown prompt source '{asked.source}'{nearest(asked.source, SOURCES)}")


def _canonical(schedule: Schedule) -> dict[str, Any]:
    return {
        "process": schedule.process,
        "rate": schedule.rate,
        "users": schedule.users,
        "think": schedule.think,
        "seed": schedule.seed,
        "source": schedule.source,
        "exact_lengths": schedule.exact_lengths,
        "repeated_prompts": schedule.repeated_prompts,
        "entries": [
            {
                "offset_ns": entry.offset_ns,
                "messages": None if entry.messages is None else list(entry.messages),
                "prompt": entry.prompt,
                "max_tokens": entry.max_tokens,
                "body": entry.body,
                "fixed_output": entry.fixed_output,
                "input_tokens": entry.input_tokens,
                "session": entry.session,
            }
            for entry in schedule.entries
        ],
    }


def _sealed(schedule: Schedule) -> Schedule:
    text = json.dumps(_canonical(schedule), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return replace(schedule, hash=hashlib.sha256(text.encode()).hexdigest())


def _content(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else json.dumps(content, sort_keys=True)


def _common_prefix(a: str, b: str) -> int:
    """Length of the longest common prefix, by halving (comparison of slices runs in C)."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
