"""Paged attention: KV in pages instead of one block a sequence."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="paged_attention",
    title="Paged attention",
    family="kv",
    problem=3,
    summary="Keeps KV in small pages that are given out as a sequence grows. Ends fragmentation and over-allocation and lets sequences share pages; it manages KV and does not make it smaller.",
    questions=questions(3),
    lossless=True,
    can_worsen=("an indirection per page in the attention kernel",),
    evidence_of_active="pages in use, by gauge; no sequence holds more than its last page in excess",
    source="Kwon et al. 2023 (vLLM, arXiv 2309.06180)",
    answers=(
        "kv_capacity",
        "kv_thrash",
        "mem_oom",
    ),
    applies=needs_switch("paged_attention"),
    change=no_change,
    predict=no_prediction,
    notes=("Where it is always on there is no switch, and nothing to gain from it any more.",),
)
