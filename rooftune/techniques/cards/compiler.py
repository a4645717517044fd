"""Compilers: generated kernels for the target."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="compiler",
    title="Compiler (torch.compile, XLA, TVM)",
    family="kernels",
    problem=9,
    summary="Lowers the model's graph, chooses or generates kernels for the target, and captures a whole step as one call.",
    questions=questions(9),
    lossless=True,
    can_worsen=(
        "first-use compilation: seconds to minutes at start and at new shapes",
        "rounding differs",
    ),
    evidence_of_active="compiled graphs and recompilations, by counter",
    source="Ansel et al. 2024 (PyTorch 2); Chen et al. 2018 (TVM, arXiv 1802.04799)",
    answers=(
        "launch_overhead",
        "kernel_path",
    ),
    applies=needs_switch("compile"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
