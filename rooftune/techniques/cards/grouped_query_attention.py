"""Grouped-query attention: a few key-value heads."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import advice, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="grouped_query_attention",
    title="Grouped-query attention",
    family="structure",
    problem=3,
    summary="Groups of query heads share a key and value head: between multi-head and multi-query in size and quality. Decided in training or by uptraining.",
    questions=questions(3),
    lossless=False,
    can_worsen=("quality, unless trained that way or uptrained with some percent of the pre-training",),
    evidence_of_active="num_key_value_heads of the served model is below num_attention_heads",
    source="Ainslie et al. 2023 (arXiv 2305.13245)",
    answers=(
        "kv_capacity",
        "kv_bandwidth",
    ),
    applies=advice("belongs to the model's training; most models since 2023 have it already"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
