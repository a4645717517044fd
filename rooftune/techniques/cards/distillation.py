"""Distillation: a smaller student learns from the model."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import advice, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="distillation",
    title="Distillation",
    family="weights",
    problem=1,
    summary="Trains a smaller model to give the teacher's distribution. It is another model, not a compression of the same weights.",
    questions=questions(1),
    lossless=False,
    can_worsen=(
        "quality, most on rare skills and languages",
        "needs data and training time",
        "behaviour changes: every task must be tested again",
    ),
    evidence_of_active="the served model's name and parameter count",
    source="Hinton et al. 2015 (arXiv 1503.02531); Muralidharan et al. 2024 (Minitron, arXiv 2407.14679)",
    answers=(
        "decode_bandwidth",
        "prefill_compute",
        "mem_oom",
    ),
    applies=advice(
        "makes another model: needs training data and hours of computing, then a run of its own as another spec"
    ),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
