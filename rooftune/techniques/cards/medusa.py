"""Medusa: extra heads that guess further tokens."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="medusa",
    title="Medusa heads",
    family="decoding",
    problem=2,
    summary="Trained extra heads on the last hidden state guess the next few tokens; a tree of guesses is checked in one step.",
    questions=questions(2),
    lossless=True,
    can_worsen=(
        "needs training of the heads for this very model",
        "memory of the heads (each may be as large as the head itself)",
        "large batches",
    ),
    evidence_of_active="proposed and accepted tokens counted per head",
    source="Cai et al. 2024 (arXiv 2401.10774)",
    answers=(
        "decode_bandwidth",
        "launch_overhead",
    ),
    applies=needs_switch("speculation"),
    change=no_change,
    predict=no_prediction,
    notes=(
        "Typical acceptance instead of exact checking changes the distribution and is then not lossless.",
    ),
)
