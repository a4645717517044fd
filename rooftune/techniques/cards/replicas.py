"""Replicas: more copies of the server behind a balancer."""

from __future__ import annotations

from rooftune.techniques.card import Card, PredictedEffect, TechniqueContext
from rooftune.techniques.parts import fact, needs_switch, no_change
from rooftune.techniques.problems import questions


def _predict(context: TechniqueContext) -> tuple[PredictedEffect, ...]:
    """Twice the instances at most double what is served; no gain where no more is offered."""
    load = fact(context, "utilisation")
    if load is None or load < 1.0:
        return ()
    return (
        PredictedEffect(
            "output_tokens_per_second", 1.0, min(2.0, load), "two instances serve at most what is offered"
        ),
    )


CARD = Card(
    name="replicas",
    title="Replicas",
    family="service",
    problem=8,
    summary="More instances of the same server share the arrivals. Throughput grows with them; the latency of a request alone does not.",
    questions=questions(8),
    lossless=True,
    can_worsen=(
        "cost, by the number of replicas",
        "prefix reuse, unless routing keeps conversations together",
        "on one machine: replicas share its bandwidth and gain nothing",
    ),
    evidence_of_active="requests answered by each replica",
    source="the method, problems 5 and 8",
    answers=(
        "overload",
        "queue_slots",
        "kv_capacity",
    ),
    applies=needs_switch("replicas"),
    change=no_change,
    predict=_predict,
    notes=("Cost per token falls only where utilisation rises; price the second machine.",),
)
