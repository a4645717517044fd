"""Structured pruning: whole layers, heads or channels taken out."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import advice, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="structured_pruning",
    title="Structured pruning (depth, width)",
    family="weights",
    problem=1,
    summary="Takes out whole layers, heads or feed-forward channels, so the remaining matrices are smaller and every kernel is faster without knowing of it.",
    questions=questions(1),
    lossless=False,
    can_worsen=(
        "quality falls steeply without distillation afterwards (10 % of the layers: some 10 to 25 % of perplexity)",
        "tasks near chance hide the loss: judge by divergence",
    ),
    evidence_of_active="layer count and parameters of the served model fell",
    source="Gromov et al. 2024 (arXiv 2403.17887); Muralidharan et al. 2024 (Minitron, arXiv 2407.14679)",
    answers=(
        "decode_bandwidth",
        "prefill_compute",
        "mem_oom",
    ),
    applies=advice(
        "makes another model: the layers to remove are chosen offline and the rest needs distillation to recover"
    ),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
