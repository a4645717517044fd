"""Selective KV: keep or read only the tokens that matter."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="selective_kv",
    title="Selective KV (SnapKV, H2O, Quest)",
    family="kv",
    problem=3,
    summary="Evicts cached tokens that got little attention (SnapKV, H2O), or keeps all and reads only the pages that matter for this query (Quest).",
    questions=questions(3),
    lossless=False,
    can_worsen=(
        "recall from the middle of a long context",
        "prefix reuse: an evicted context cannot be shared",
    ),
    evidence_of_active="tokens kept or pages read per step below the context length, by counter",
    source="Li et al. 2024 (SnapKV, arXiv 2404.14469); Zhang et al. 2023 (H2O, arXiv 2306.14048); Tang et al. 2024 (Quest, arXiv 2406.10774)",
    answers=(
        "kv_capacity",
        "kv_bandwidth",
        "kv_thrash",
    ),
    applies=needs_switch("kv_selection"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
