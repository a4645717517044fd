"""Fewer slots: fewer sequences at once, each with faster tokens."""

from __future__ import annotations

from rooftune.spec import Configuration
from rooftune.techniques.card import Applies, Card, Knob, TechniqueContext
from rooftune.techniques.parts import fact, needs_switch, no_prediction, setting
from rooftune.techniques.problems import questions

_CAUSES = ("compute_bound_batch", "kv_thrash", "kv_capacity", "kv_bandwidth")


def _judge(context: TechniqueContext) -> Applies:
    slots, preempted = setting(context, "slots"), fact(context, "preemptions")
    if slots is None or slots <= 1:
        return Applies(False, "there is one slot" if slots is not None else "the number of slots is not told")
    if context.cause in _CAUSES:
        return Applies(True, f"the cause is {context.cause}: fewer sequences at once relieve it")
    if preempted:
        return Applies(True, f"{preempted:.0f} requests were put back to the queue for lack of KV")
    waiting, most = fact(context, "waiting_mean"), fact(context, "running_max")
    if waiting is not None and waiting > 0.05:
        return Applies(
            False, f"{waiting:.1f} requests wait for a slot on average: fewer slots make the queue longer"
        )
    if most is not None and most <= slots / 2:
        return Applies(False, f"at most {most:.0f} of {slots:.0f} slots were ever in use")
    return Applies(
        False, "neither arithmetic nor KV binds the steps; fewer slots would only make requests wait"
    )


def _change(context: TechniqueContext) -> Configuration:
    slots = setting(context, "slots")
    return {"slots": max(int(slots) // 2, 1)} if slots is not None else {}


CARD = Card(
    name="fewer_slots",
    title="Fewer slots",
    family="batching",
    problem=8,
    summary="Lets fewer sequences run at once, so steps are shorter and KV is not overcommitted. Answers batches that are bound by arithmetic, and preemption.",
    questions=questions(8),
    lossless=True,
    can_worsen=("throughput and TTFT, where requests wait for a slot",),
    evidence_of_active="most sequences that ran at once, at the new number of slots",
    source="the method, problem 8",
    answers=_CAUSES,
    applies=needs_switch("slots", _judge),
    change=_change,
    predict=no_prediction,
    knobs=(Knob("slots", (4, 2, 8)),),
    in_engine=True,
)
