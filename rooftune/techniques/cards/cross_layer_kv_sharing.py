"""Cross-layer KV sharing: neighbouring layers use one cache."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import advice, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="cross_layer_kv_sharing",
    title="Cross-layer KV sharing",
    family="structure",
    problem=3,
    summary="Neighbouring layers use the same keys and values, so fewer layers have a cache. Decided in training.",
    questions=questions(3),
    lossless=False,
    can_worsen=("quality collapses without retraining",),
    evidence_of_active="layers with a cache of their own fewer than layers",
    source="Brandon et al. 2024 (arXiv 2405.12981)",
    answers=(
        "kv_capacity",
        "kv_bandwidth",
    ),
    applies=advice("belongs to the model's training"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
