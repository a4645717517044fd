"""Parallel kernels: work split over cores."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="kernel_parallelization",
    title="Kernel parallelization",
    family="kernels",
    problem=9,
    summary="Splits each operator over cores with little waiting between them.",
    questions=questions(9),
    lossless=True,
    can_worsen=("small operators, where waking threads costs more than they do",),
    evidence_of_active="threads that took part, by counter",
    source="the method, problem 9",
    answers=(
        "kernel_path",
        "threads",
    ),
    applies=needs_switch("kernel_parallel"),
    change=no_change,
    predict=no_prediction,
    notes=("How many threads and where is the card thread_placement.",),
)
