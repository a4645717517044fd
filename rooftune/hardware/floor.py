"""Physical floors of a goal: no configuration goes below the bytes that must move and the operations that must be done.

A step that makes one token of one sequence reads every weight once: its time is at least max(bytes / bandwidth,
operations / peak). The best kind of operation that the machine has counts, so a floor is a floor for every kernel.
Several tokens per step (speculation) can pass the TPOT floor by as many times; the engine has no speculation yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rooftune.arithmetic import (
    decode_flops,
    kv_bytes_per_token,
    model_shape,
    prefill_flops,
    step_bytes,
    useful_flops,
)
from rooftune.hardware.roofs import Roofs
from rooftune.spec import Goal, Spec, format_quantity

PROBE_MARGIN = 0.9
"""A roof is a measurement: only what lies below 0.9 of a floor is refused."""


@dataclass(frozen=True, slots=True)
class Floor:
    """A lowest time in seconds, and the sentence that derives it."""

    seconds: float
    bytes: float
    flops: float
    why: str


def lowest_tpot(facts: Mapping[str, Any], roofs: Roofs, context: int = 0) -> Floor:
    """One token of one sequence alone with ``context`` tokens cached.

    facts: a model runner's description (``config``, ``weight_bytes`` read per step, ``kv_bytes_per_token``).
    """
    shape = model_shape(facts["config"])
    moved = step_bytes(shape, facts["weight_bytes"], 1, context, kv_element_bytes=_kv_element(facts))
    return _floor(moved, decode_flops(shape, context), roofs, "a decode step")


def lowest_ttft(facts: Mapping[str, Any], roofs: Roofs, prompt_tokens: int, cached_tokens: int = 0) -> Floor:
    """A prompt of ``prompt_tokens`` alone on the machine, all but ``cached_tokens`` computed."""
    shape = model_shape(facts["config"])
    new = max(prompt_tokens - cached_tokens, 1)
    held = max(prompt_tokens - new, 0)
    moved = step_bytes(
        shape,
        facts["weight_bytes"],
        0,
        0,
        prefill_tokens=new,
        prefill_context=held,
        kv_element_bytes=_kv_element(facts),
    )
    flops = prefill_flops(shape, new, cached=held, sampled=1)
    return _floor(moved, flops, roofs, f"reading {new} prompt token{'s' if new > 1 else ''}")


def most_output_tokens_per_second(facts: Mapping[str, Any], roofs: Roofs, prompt_tokens: int = 1) -> float:
    """Output tokens per second that no batch size passes: the arithmetic of a decode step alone."""
    return roofs.peak() / decode_flops(facts["config"], prompt_tokens)


def check_goals(
    spec: Spec,
    model_facts: Mapping[str, Any],
    roofs: Roofs,
    *,
    prompt_tokens: int | None = None,
    shared_prefix_tokens: int | None = None,
) -> list[str]:
    """Goals and SLO bounds that this machine cannot reach, one line each with goal, roof and numbers; [] when none.

    prompt_tokens: a typical prompt (None: the spec's own ``input_tokens``, else 1, which refuses least).
    shared_prefix_tokens: what a prefix cache could save of it (None: 0 for synthetic prompts, else nearly all).
    """
    prompts = spec.workload.prompts
    prompt = prompt_tokens or prompts.input_tokens or 1
    if shared_prefix_tokens is None:
        shared_prefix_tokens = 0 if prompts.source.startswith("synthetic") else prompt - 1
    ttft = lowest_ttft(model_facts, roofs, prompt, shared_prefix_tokens)
    tpot = lowest_tpot(model_facts, roofs)
    tokens = prompts.output_tokens
    problems = []
    wanted: list[tuple[str, str, float]] = [(f"slo {name}", name, bound) for name, bound in spec.slo.items()]
    wanted += [
        (g.metric, g.metric.split("_")[0], g.target)
        for g in spec.goals.bounds
        if g.sign == "<=" and g.dimension == "time"
    ]
    for name, kind, bound in wanted:
        floor = _time_floor(kind, ttft, tpot, tokens)
        if floor is not None and bound < PROBE_MARGIN * floor.seconds:
            asked, least = format_quantity(bound, "time"), format_quantity(floor.seconds, "time")
            problems.append(f"{name} <= {asked} is below the roof of this machine, {least}: {floor.why}")
    for goal in spec.goals.bounds:
        line = _throughput_problem(goal, spec, model_facts, roofs, prompt, shared_prefix_tokens)
        if line is not None:
            problems.append(line)
    return problems


def _time_floor(kind: str, ttft: Floor, tpot: Floor, output_tokens: int | None) -> Floor | None:
    if kind == "ttft":
        return ttft
    if kind in ("tpot", "itl"):
        return tpot
    if kind == "e2e":
        more = (output_tokens or 1) - 1
        return Floor(
            ttft.seconds + more * tpot.seconds,
            ttft.bytes + more * tpot.bytes,
            ttft.flops + more * tpot.flops,
            f"{ttft.why}, then {more} decode steps of {format_quantity(tpot.seconds, 'time')}",
        )
    return None


def _throughput_problem(
    goal: Goal, spec: Spec, facts: Mapping[str, Any], roofs: Roofs, prompt: int, cached: int
) -> str | None:
    """Rates above what the arithmetic allows or the workload offers, and costs below what that allows."""
    arrivals, price = spec.workload.arrivals, spec.price
    best_tokens = most_output_tokens_per_second(facts, roofs, prompt)
    if goal.metric == "cost_per_million_output_tokens" and goal.sign == "<=" and price is not None:
        least = price.per_second / best_tokens * 1e6
        if goal.target < PROBE_MARGIN * least:
            return (
                f"{goal} is below the roof of this machine, {least:.4g}: {best_tokens:.4g} output tokens/s is the "
                f"most that {_flops(roofs.peak())}/s allow at this price"
            )
    if goal.sign != ">=" or goal.dimension != "rate":
        return None
    if goal.metric in ("output_tokens_per_second",) and goal.target * PROBE_MARGIN > best_tokens:
        need = _flops(decode_flops(facts["config"], prompt))
        return f"{goal} is above the roof of this machine, {best_tokens:.4g}/s: {need} a token at {_flops(roofs.peak())}/s"
    if goal.metric in ("requests_per_second", "goodput"):
        request = useful_flops(facts["config"], prompt, cached, spec.workload.prompts.output_tokens or 1)
        most = roofs.peak() / request
        if goal.target * PROBE_MARGIN > most:
            return f"{goal} is above the roof of this machine, {most:.4g}/s: {_flops(request)} a request at {_flops(roofs.peak())}/s"
        if isinstance(arrivals.rate, float) and goal.target > arrivals.rate:
            return f"{goal} is above the offered load, {arrivals.rate:.4g}/s: no server answers requests that do not come"
    return None


def _floor(moved: float, flops: float, roofs: Roofs, what: str) -> Floor:
    bandwidth, peak = roofs.bandwidth_at(moved), roofs.peak()
    reading, computing = moved / bandwidth, flops / peak
    if reading >= computing:
        why = f"{what} must move {moved / 1e6:.4g} MB, and memory gives {bandwidth / 1e9:.3g} GB/s"
    else:
        why = f"{what} needs {_flops(flops)}, and the processor gives {_flops(peak)}/s"
    return Floor(max(reading, computing), moved, flops, why)


def _kv_element(facts: Mapping[str, Any]) -> float:
    """Bytes of one cached element, from what the runtime tells of a token's; 2 (16 bit) where it does not."""
    told = facts.get("kv_bytes_per_token")
    return float(told) / kv_bytes_per_token(facts["config"], 1.0) if told else 2.0


def _flops(value: float) -> str:
    return f"{value / 1e12:.3g} TFLOP" if value >= 1e12 else f"{value / 1e9:.3g} GFLOP"
