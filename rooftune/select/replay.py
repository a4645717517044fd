"""A run's own load, ready to be simulated: who came when, with which prompt, for how many tokens, and its step log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from rooftune.engine.simulated import Arrival, SimulatedRequest
from rooftune.engine.stats import StepRecord
from rooftune.engine.work import StepWork
from rooftune.store.run import Run
from rooftune.workload.schedule import Schedule

MOST_REQUESTS = 200
"""Of a longer schedule only so many are replayed, from its beginning: prediction must not take longer than the trial."""

_NEEDED = (
    "seconds",
    "prefill_tokens",
    "prefill_context",
    "decode_rows",
    "decode_context",
    "finished_prompts",
)


@dataclass(frozen=True, slots=True)
class Replay:
    """``arrivals`` in the order of the schedule; in a closed loop ``users`` of them are under way at once.

    overhead: seconds that a request spends outside the engine before its first token (client, HTTP, tokenizer).
    """

    arrivals: tuple[Arrival, ...]
    users: int | None
    think: float
    overhead: float

    def first(self) -> Sequence[Arrival]:
        """What comes by itself: all of an open loop, one request a user of a closed one."""
        return self.arrivals if self.users is None else self.arrivals[: self.users]

    def follower(self) -> _Follower | None:
        """What comes because another is done (closed loop); a fresh one for each simulation."""
        return None if self.users is None else _Follower(self)


class _Follower:
    """The next request of a closed loop, think time after an answer."""

    def __init__(self, replay: Replay) -> None:
        self._rest = iter(replay.arrivals[replay.users or 0 :])
        self._think = replay.think

    def __call__(self, done: SimulatedRequest) -> Iterable[Arrival]:
        following = next(self._rest, None)
        if following is None:
            return ()
        end = done.token_times[-1] if done.token_times else done.arrival
        return ((end + self._think, following[1], following[2]),)


def replay_of(run: Run, schedule: Schedule) -> Replay | str:
    """The load of a run, or the reason why it cannot be replayed."""
    if len(run.records) != len(schedule.entries):
        return f"the run has {len(run.records)} requests and the schedule {len(schedule.entries)}"
    records = sorted(run.records, key=lambda record: record.index)
    lengths = [
        record.prompt_tokens if record.prompt_tokens is not None else entry.input_tokens
        for record, entry in zip(records, schedule.entries, strict=True)
    ]
    known = [length for length in lengths if length is not None]
    if not known:
        return "the server did not tell the prompts' token counts"
    typical = round(median(known))
    tokens = _pseudo_tokens([entry.text() for entry in schedule.entries], [n or typical for n in lengths])
    arrivals = tuple(
        (entry.offset_ns / 1e9, prompt, max(record.output_tokens or entry.max_tokens, 1))
        for record, entry, prompt in zip(records, schedule.entries, tokens, strict=True)
    )[:MOST_REQUESTS]
    users = schedule.users if schedule.closed_loop else None
    return Replay(arrivals, users, schedule.think, _overhead(run))


def steps_of(run: Run) -> list[StepRecord] | str:
    """The run's step log in the engine's own form, or the reason why there is none."""
    if not run.steps:
        return "the server keeps no step log"
    missing = [name for name in _NEEDED if name not in run.steps[0]]
    if missing:
        return f"the step log does not tell {', '.join(missing)}"
    return [
        StepRecord(
            start_ns=int(step.get("begin_ns", 0)),
            duration=step["seconds"],
            forward=step.get("forward", step["seconds"]),
            work=StepWork(
                int(step["prefill_tokens"]),
                int(step["prefill_context"]),
                int(step["decode_rows"]),
                int(step["decode_context"]),
                int(step["finished_prompts"]),
            ),
            waiting=int(step.get("waiting", 0)),
            running=int(step.get("running", 0)),
            used_pages=int(step.get("used_pages", 0)),
        )
        for step in run.steps
    ]


def _pseudo_tokens(texts: Sequence[str], lengths: Sequence[int]) -> list[tuple[int, ...]]:
    """Stand-ins for tokens with which equal beginnings of texts are equal beginnings of tokens.

    Token i of every prompt is the text's i-th piece of ``r`` characters, r being characters per token over the whole
    schedule; what a text is short of its token count is filled with tokens that occur nowhere else.
    """
    ratio = sum(map(len, texts)) / max(sum(lengths), 1)
    known: dict[str, int] = {}
    unique = 1 << 40
    prompts = []
    for text, length in zip(texts, lengths, strict=True):
        edges = [round(i * ratio) for i in range(length + 1)]
        tokens = []
        for begin, end in pairwise(edges):
            piece = text[begin:end]
            if len(piece) < end - begin or not piece:
                unique += 1
                tokens.append(unique)
            else:
                tokens.append(known.setdefault(piece, len(known)))
        prompts.append(tuple(tokens))
    return prompts


def _overhead(run: Run) -> float:
    """Median of TTFT beyond the server's own queue and prefill; 0 where the server tells no timings."""
    beyond = []
    for record in run.records:
        timings, first = record.server_timings, record.first_token_ns
        if timings is None or first is None or not {"queue", "prefill"} <= timings.keys():
            continue
        beyond.append((first - record.scheduled_ns) / 1e9 - timings["queue"] - timings["prefill"])
    return max(median(beyond), 0.0) if beyond else 0.0
