"""Prefill and decode on instances of their own."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="pd_disaggregation",
    title="Prefill/decode disaggregation",
    family="service",
    problem=6,
    summary="One instance computes prompts, another the answers; KV moves between them. TTFT and TPOT are tuned apart and no longer disturb each other.",
    questions=questions(6),
    lossless=True,
    can_worsen=(
        "time to move KV for each request",
        "a fixed split is wrong as soon as the mix of lengths changes",
        "needs a second device",
    ),
    evidence_of_active="KV bytes moved between instances, by counter",
    source="Zhong et al. 2024 (DistServe, arXiv 2401.09670); Patel et al. 2023 (Splitwise, arXiv 2311.18677)",
    answers=(
        "prefill_interference",
        "head_of_line",
    ),
    applies=needs_switch("disaggregation"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
