"""More memory: a device that holds more."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import advice, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="more_memory",
    title="More memory",
    family="hardware",
    problem=7,
    summary="A device with more memory holds more KV, hence more sequences at once, or a model that did not fit.",
    questions=questions(7),
    lossless=True,
    can_worsen=("cost",),
    evidence_of_active="the KV pool's size",
    source="the method, bottleneck 'memory capacity'",
    answers=(
        "kv_capacity",
        "mem_oom",
        "kv_thrash",
    ),
    applies=advice("another machine, not a setting: run the same spec there and compare"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
