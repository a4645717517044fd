"""Operator fusion: fewer passes over memory, fewer starts."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="kernel_fusion",
    title="Operator fusion",
    family="kernels",
    problem=9,
    summary="Joins neighbouring operators (norm with linear, gate with up, rotary with attention), so intermediates stay in cache and fewer operators start.",
    questions=questions(9),
    lossless=True,
    can_worsen=("more code paths to keep right",),
    evidence_of_active="operator calls per step fell, by counter",
    source="the method, problem 9",
    answers=(
        "launch_overhead",
        "kernel_path",
    ),
    applies=needs_switch("kernel_fusion"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
