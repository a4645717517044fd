"""Multi-query attention: one key-value head for all query heads."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import advice, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="multi_query_attention",
    title="Multi-query attention",
    family="structure",
    problem=3,
    summary="All query heads share one key and value head: KV shrinks by the number of heads. Decided in training or by uptraining.",
    questions=questions(3),
    lossless=False,
    can_worsen=("quality, unless trained that way or uptrained with some percent of the pre-training",),
    evidence_of_active="num_key_value_heads of the served model is 1",
    source="Shazeer 2019 (arXiv 1911.02150)",
    answers=(
        "kv_capacity",
        "kv_bandwidth",
    ),
    applies=advice("belongs to the model's training: heads that are merged afterwards need uptraining"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
