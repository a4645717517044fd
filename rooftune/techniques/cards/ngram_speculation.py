"""Speculation by n-grams of the prompt."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="ngram_speculation",
    title="N-gram speculation (prompt lookup)",
    family="decoding",
    problem=2,
    summary="Proposes the tokens that followed the last n-gram earlier in the same text. Costs no model; pays where answers copy from the prompt (summaries, code edits, extraction).",
    questions=questions(2),
    lossless=True,
    can_worsen=(
        "free text: nothing is accepted and each check costs a wider step",
        "large batches without spare arithmetic",
    ),
    evidence_of_active="proposed and accepted tokens counted",
    source="Saxena 2023 (prompt lookup decoding); Yang et al. 2023 (LLMA, arXiv 2304.04487)",
    answers=(
        "decode_bandwidth",
        "launch_overhead",
    ),
    applies=needs_switch("speculation"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
