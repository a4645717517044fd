"""Speculative decoding with a draft model."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="speculative_decoding",
    title="Speculative decoding (draft model)",
    family="decoding",
    problem=2,
    summary="A small draft model proposes several tokens, the model checks them in one step and keeps the longest right beginning: several tokens for one reading of the weights.",
    questions=questions(2),
    lossless=True,
    can_worsen=(
        "throughput at large batches, where there is no spare arithmetic to check drafts",
        "latency, where few drafts are accepted",
        "memory: the draft's weights and KV",
    ),
    evidence_of_active="drafted and accepted tokens counted; mean accepted length above 1",
    source="Leviathan et al. 2022 (arXiv 2211.17192); Chen et al. 2023 (arXiv 2302.01318)",
    answers=(
        "decode_bandwidth",
        "launch_overhead",
    ),
    applies=needs_switch("speculation"),
    change=no_change,
    predict=no_prediction,
    notes=(
        "Greedy text can differ from plain decoding by rounding only: compare the logit margin at the first difference.",
    ),
)
