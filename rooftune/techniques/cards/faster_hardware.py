"""Faster hardware: a higher roof."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import advice, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="faster_hardware",
    title="Faster hardware",
    family="hardware",
    problem=10,
    summary="Raises the roof itself: bandwidth for decode, arithmetic for prefill. The bound of the gain is the ratio of the roofs that bind.",
    questions=questions(10),
    lossless=True,
    can_worsen=("cost per hour; per token only if the faster machine is kept busy",),
    evidence_of_active="roofs measured there",
    source="the method, bottlenecks 'compute bound' and 'bandwidth bound'",
    answers=(
        "decode_bandwidth",
        "prefill_compute",
        "overload",
    ),
    applies=advice(
        "another machine, not a setting: measure its roofs there (rooftune roofs), or read the datasheet's in the catalogue"
    ),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
