"""Loop tiling: reuse what is in cache."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="kernel_tiling",
    title="Loop tiling",
    family="kernels",
    problem=9,
    summary="Orders loops so that a tile of weights or activations is used several times while it is in cache. Matters from a few rows on: prefill and larger batches.",
    questions=questions(9),
    lossless=True,
    can_worsen=("shapes that the tile does not divide",),
    evidence_of_active="operations per byte of the kernel, or its share of the arithmetic roof",
    source="Goto and van de Geijn 2008 (Anatomy of high-performance matrix multiplication)",
    answers=(
        "prefill_compute",
        "kernel_path",
    ),
    applies=needs_switch("kernel_tiling"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
