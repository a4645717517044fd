"""Local window attention: each token sees only the last ones."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import advice, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="local_window_attention",
    title="Local window attention",
    family="structure",
    problem=3,
    summary="Limits attention of some or all layers to the last tokens, so KV stops growing with the context. Decided in training; a window put on a model trained without it loses its memory.",
    questions=questions(3),
    lossless=False,
    can_worsen=(
        "recall beyond the window",
        "models that were trained with full attention, unless the first tokens are kept",
    ),
    evidence_of_active="KV bytes of a long sequence stop growing",
    source="Beltagy et al. 2020 (Longformer, arXiv 2004.05150); Xiao et al. 2023 (StreamingLLM, arXiv 2309.17453)",
    answers=(
        "kv_capacity",
        "kv_bandwidth",
    ),
    applies=advice("belongs to the model's training: choose a model with window layers, or fine-tune"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
