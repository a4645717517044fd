"""Continuous batching: requests join and leave at every step."""

from __future__ import annotations

from rooftune.spec import Configuration
from rooftune.techniques.card import Applies, Card, TechniqueContext
from rooftune.techniques.parts import fact, needs_switch, no_prediction
from rooftune.techniques.problems import questions


def _judge(context: TechniqueContext) -> Applies:
    batching = context.configuration.get("batching")
    if batching in (None, "continuous"):
        return Applies(False, "requests join and leave at every step already")
    waiting, queue = fact(context, "waiting_mean"), fact(context, "queue_mean")
    told = [f"{waiting:.1f} requests wait on average"] if waiting is not None else []
    told += [f"{queue:.2g} s each"] if queue is not None else []
    return Applies(
        True,
        f"batching is {batching}: a batch must end before the next starts"
        + (f"; {', '.join(told)}" if told else ""),
    )


def _change(context: TechniqueContext) -> Configuration:
    return {"batching": "continuous"}


CARD = Card(
    name="continuous_batching",
    title="Continuous batching",
    family="batching",
    problem=5,
    summary="A request joins as soon as a slot is free and leaves with its last token, so no slot stays empty and nobody waits for the longest answer of a batch.",
    questions=questions(5),
    lossless=True,
    can_worsen=("TPOT of running answers, whenever a new prompt is computed between their tokens",),
    evidence_of_active="requests that joined while others ran, by counter",
    source="Yu et al. 2022 (Orca, OSDI)",
    answers=("queue_slots", "overload", "batch_wait", "decode_bandwidth", "head_of_line"),
    applies=needs_switch("batching", _judge),
    change=_change,
    predict=no_prediction,
    in_engine=True,
)
