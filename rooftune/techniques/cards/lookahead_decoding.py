"""Lookahead decoding: parallel Jacobi guesses."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="lookahead_decoding",
    title="Lookahead decoding",
    family="decoding",
    problem=2,
    summary="Computes a window of guesses in parallel with decoding, collects the n-grams that come out, and checks them in the same step. No draft model, no training.",
    questions=questions(2),
    lossless=True,
    can_worsen=(
        "every step grows by window times n-gram tokens: slower wherever arithmetic is scarce",
        "processors with little arithmetic per byte",
    ),
    evidence_of_active="tokens per step above 1, n-gram pool hits counted",
    source="Fu et al. 2024 (arXiv 2402.02057)",
    answers=(
        "decode_bandwidth",
        "launch_overhead",
    ),
    applies=needs_switch("speculation"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
