"""Where a decode step's time and the time to first token go, against the roof.

Parts add up to the measured value; each says how it is known: *measured* (a clock or a counter of the server), *computed* (bytes
or operations over a probed roof), *inferred* (a difference of the two). What is left is "unexplained", never spread over others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from rooftune.diagnose.facts import Facts, gather
from rooftune.diagnose.step_model import seconds_of
from rooftune.store.run import Run

Kind = Literal["measured", "computed", "inferred"]


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    seconds: float
    kind: Kind


@dataclass(frozen=True, slots=True)
class TimeSplit:
    """``measured``: what the parts add up to; None (with ``reason``) where nothing was measured. ``floor``: roofline of the step."""

    measured: float | None
    parts: tuple[Part, ...]
    floor: float | None = None
    basis: str = ""
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "measured": self.measured,
            "floor": self.floor,
            "basis": self.basis,
            "reason": self.reason,
            "parts": [asdict(p) for p in self.parts],
        }

    def part(self, name: str) -> float | None:
        return next((p.seconds for p in self.parts if p.name == name), None)


def time_split(run: Run, facts: Facts | None = None) -> dict[str, Any]:
    """Both splits as JSON. ``parts`` and ``measured_step`` at the top are those of the decode step, for reports."""
    facts = facts or gather(run)
    step, ttft, tpot = split_decode_step(run, facts), split_ttft(run), split_tpot(run, facts)
    return {
        "parts": [asdict(p) for p in step.parts],
        "measured_step": step.measured,
        "floor": step.floor,
        "basis": step.basis,
        "reason": step.reason,
        "decode_step": step.to_json(),
        "tpot": tpot.to_json(),
        "ttft": ttft.to_json(),
    }


def split_decode_step(run: Run, facts: Facts) -> TimeSplit:
    """The mean step that only decodes."""
    if facts.decode_step is None or not facts.decode_rows:
        return TimeSplit(None, (), reason="the server gives no step log with steps that only decode")
    measured = facts.decode_step
    parts = _Parts(measured)
    roofs = facts.roofs
    context = facts.decode_context or 0.0
    if roofs.weights is not None:
        parts.take("reading weights", roofs.weights, "computed")
    if roofs.kv_per_token is not None:
        parts.take("reading KV", roofs.kv_per_token * context, "computed")
    moved, computed = roofs.bytes(context), roofs.compute(facts.decode_rows)
    if moved is not None and computed is not None and computed > moved:
        # Reading and computing overlap: only what arithmetic needs beyond the bytes adds time.
        parts.take("arithmetic beyond the bytes", computed - moved, "computed")
    forward, outside = _forward(run)
    if forward is not None and roofs.weights is not None:
        parts.take("forward pass above the roof", max(0.0, forward - parts.sum()), "inferred")
    elif forward is not None:
        parts.take("forward pass", forward, "measured")
    for name, seconds in _host(run, outside):
        parts.take(name, seconds, "measured")
    return TimeSplit(
        measured,
        parts.closed(),
        floor=roofs.decode_floor(facts.decode_rows, context),
        basis=f"mean decode step of {facts.decode_rows:.1f} sequences with {context / facts.decode_rows:.0f} tokens each",
    )


def split_tpot(run: Run, facts: Facts) -> TimeSplit:
    """Time per output token as the client sees it: the decode step, others' prompts, and delivery."""
    if facts.tpot is None:
        return TimeSplit(None, (), reason="no answer with two or more tokens")
    if facts.decode_step is None:
        return TimeSplit(facts.tpot, (Part("unexplained", facts.tpot, "inferred"),), reason="no step log")
    parts = _Parts(facts.tpot)
    parts.take("decode step", facts.decode_step, "measured")
    per_token = _prompts_between_tokens(run)
    if per_token is not None:
        parts.take("others' prompts", per_token, "inferred")
    return TimeSplit(facts.tpot, parts.closed(), basis="mean over answers")


def split_ttft(run: Run) -> TimeSplit:
    """Mean time to first token over answered requests: sending, queue, prefill, rest."""
    good = [r for r in run.records if r.succeeded and r.first_token_ns is not None]
    told = [r for r in good if r.server_timings and {"queue", "prefill"} <= r.server_timings.keys()]
    if not good:
        return TimeSplit(None, (), reason="no request was answered")
    if len(told) < len(good) / 2:
        mean = float(np.mean([((r.first_token_ns or 0) - r.scheduled_ns) * 1e-9 for r in good]))
        return TimeSplit(
            mean, (Part("unexplained", mean, "inferred"),), reason="the server gives no timings of its own"
        )
    mean = float(np.mean([((r.first_token_ns or 0) - r.scheduled_ns) * 1e-9 for r in told]))
    parts = _Parts(mean)
    late = [(r.sent_ns - r.scheduled_ns) * 1e-9 for r in told if r.sent_ns is not None]
    if late:
        parts.take("client sends late", max(0.0, float(np.mean(late))), "measured")
    timings = [r.server_timings or {} for r in told]
    parts.take("queue", float(np.mean([t["queue"] for t in timings])), "measured")
    parts.take("prefill", float(np.mean([t["prefill"] for t in timings])), "measured")
    return TimeSplit(
        mean, parts.closed("network, front end, first emit"), basis=f"mean of {len(told)} requests"
    )


class _Parts:
    """Takes parts off a measured whole; a part can never exceed what is left, the surplus is not shown as time."""

    def __init__(self, whole: float) -> None:
        self._left = whole
        self._parts: list[Part] = []

    def take(self, name: str, seconds: float, kind: Kind) -> None:
        taken = min(max(0.0, seconds), self._left)
        if taken > 0.0:
            self._parts.append(Part(name, taken, kind))
            self._left -= taken

    def sum(self) -> float:
        return sum(p.seconds for p in self._parts)

    def closed(self, rest: str = "unexplained") -> tuple[Part, ...]:
        return (*self._parts, Part(rest, max(0.0, self._left), "inferred"))


def _forward(run: Run) -> tuple[float | None, float | None]:
    """Mean seconds in the forward pass and outside it of steps that only decode."""
    steps = [s for s in run.steps if s["decode_rows"] > 0 and s["prefill_tokens"] == 0 and "forward" in s]
    if not steps:
        return None, None
    forward = float(np.mean([s["forward"] for s in steps]))
    return forward, float(np.mean([seconds_of(s) for s in steps])) - forward


def _host(run: Run, outside: float | None) -> Sequence[tuple[str, float]]:
    """Sampling and scheduling by the server's counters, in the proportion that they have over the whole run."""
    sampling, scheduling = run.counters.get("seconds_sampling"), run.counters.get("seconds_scheduling")
    steps = run.counters.get("steps")
    if steps and sampling is not None and scheduling is not None:
        return [("sampling", sampling / steps), ("scheduling and Python", scheduling / steps)]
    return [("host, outside the forward pass", outside)] if outside is not None else []


def _prompts_between_tokens(run: Run) -> float | None:
    """Seconds of steps with prompt tokens that a decoding request sat through, per token it got.

    A step with prompt tokens delays every sequence that is past its own prompt; those are its decode rows, or, in a step
    without any, the running ones that do not belong to the prompt (at least one prompt runs).
    """
    stalled = gained = 0.0
    rows = [s for s in run.steps if s["decode_rows"] > 0 and s["prefill_tokens"] == 0]
    if not rows:
        return None
    typical = float(np.mean([seconds_of(s) for s in rows]))
    for step in run.steps:
        gained += step["decode_rows"]
        if step["prefill_tokens"] <= 0:
            continue
        if step["decode_rows"] > 0:
            stalled += step["decode_rows"] * max(0.0, seconds_of(step) - typical)
        else:
            stalled += max(0.0, step["running"] - 1) * seconds_of(step)
    return stalled / gained if gained else None
