"""More memory: a KV pool, or a device, that holds more."""

from __future__ import annotations

from rooftune.spec import Configuration
from rooftune.techniques.card import Applies, Card, Knob, TechniqueContext
from rooftune.techniques.parts import fact, needs_switch, no_prediction, setting
from rooftune.techniques.problems import questions

_FULL = 0.9


def _judge(context: TechniqueContext) -> Applies:
    used, preempted = fact(context, "kv_used_max"), fact(context, "preemptions")
    pool, token, memory = (
        setting(context, "pool_tokens"),
        fact(context, "kv_bytes_per_token"),
        fact(context, "memory_bytes"),
    )
    if not preempted and (used is None or used < _FULL):
        told = (
            f"at most {used:.0%} of the pool was in use" if used is not None else "its use was not measured"
        )
        return Applies(False, f"the KV pool is not what is short: {told}, and nothing was preempted")
    if pool and token and memory and 2 * pool * token > 0.5 * memory:
        return Applies(
            False,
            f"a pool twice as large would take {2 * pool * token / 1e9:.1f} of {memory / 1e9:.1f} GB: another machine",
        )
    return Applies(
        True,
        f"the KV pool is short: {used or 0.0:.0%} in use at most, {preempted or 0:.0f} requests preempted",
    )


def _change(context: TechniqueContext) -> Configuration:
    pool = setting(context, "pool_tokens")
    return {"pool_tokens": 2 * int(pool)} if pool else {}


CARD = Card(
    name="more_memory",
    title="More memory for KV",
    family="hardware",
    problem=7,
    summary="A larger KV pool, or a device with more memory, holds more sequences at once, or a model that did not fit.",
    questions=questions(7),
    lossless=True,
    can_worsen=("memory left for everything else", "cost, where it needs another device"),
    evidence_of_active="the pool's size as the server tells it; preemptions fell",
    source="the method, bottleneck 'memory capacity'",
    answers=("kv_capacity", "mem_oom", "kv_thrash"),
    applies=needs_switch("pool_tokens", _judge),
    change=_change,
    predict=no_prediction,
    knobs=(Knob("pool_tokens", (32768, 65536)),),
    in_engine=True,
)
