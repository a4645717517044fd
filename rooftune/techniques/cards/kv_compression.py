"""KV compression: low-rank or merged cache entries."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="kv_compression",
    title="KV compression",
    family="kv",
    problem=3,
    summary="Keeps a smaller form of the cache: low-rank keys and values, or neighbouring entries merged into one.",
    questions=questions(3),
    lossless=False,
    can_worsen=(
        "quality on exact recall",
        "time to compress after the prefill",
    ),
    evidence_of_active="bytes kept per token of context fell below kv_bytes_per_token",
    source="Liu et al. 2024 (MiniCache, arXiv 2405.14366); Chang et al. 2024 (Palu, arXiv 2407.21118)",
    answers=(
        "kv_capacity",
        "kv_bandwidth",
        "kv_thrash",
    ),
    applies=needs_switch("kv_compression"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
