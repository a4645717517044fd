"""Attention kernels that do not write the score matrix."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="attention_kernel",
    title="Attention kernel (fused, tiled)",
    family="kernels",
    problem=2,
    summary="Computes attention tile by tile without writing the scores to memory, and splits long contexts over cores. Pays where attention or KV reads take a large share: long prompts and contexts.",
    questions=questions(2),
    lossless=True,
    can_worsen=("short contexts: nothing to gain, more start-up",),
    evidence_of_active="the attention kernel that was called, by counter",
    source="Dao et al. 2022 (FlashAttention, arXiv 2205.14135); Dao et al. 2023 (Flash-Decoding)",
    answers=(
        "kv_bandwidth",
        "prefill_compute",
        "kernel_path",
    ),
    applies=needs_switch("attention_kernel"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
