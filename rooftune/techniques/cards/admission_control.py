"""Admission control: refuse early instead of answering late."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="admission_control",
    title="Admission control",
    family="scheduling",
    problem=8,
    summary="Refuses or delays requests beyond what can be served within the bounds, so those that are taken meet them. Raises goodput under overload; serves nobody faster below it.",
    questions=questions(8),
    lossless=True,
    can_worsen=(
        "refused requests: failures count as misses of the SLO",
        "clients that retry at once add to the load",
    ),
    evidence_of_active="requests refused with 429, by counter",
    source="the method, bottleneck 'queueing and scheduling'",
    answers=("overload",),
    applies=needs_switch("admission"),
    change=no_change,
    predict=no_prediction,
    notes=("A refusal is an unmet request here: it helps goodput only, never the share that is served.",),
)
