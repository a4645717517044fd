"""Vectorized kernels: several numbers an instruction."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="kernel_vectorization",
    title="Kernel vectorization",
    family="kernels",
    problem=9,
    summary="Uses the widest instructions of the processor (AVX2, AVX-512, AMX, NEON) instead of scalar code.",
    questions=questions(9),
    lossless=True,
    can_worsen=("clock, on processors that slow down under wide instructions",),
    evidence_of_active="the instruction set in use, as the server tells it",
    source="the method, problem 9; processor manuals",
    answers=(
        "kernel_path",
        "prefill_compute",
    ),
    applies=needs_switch("isa"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
