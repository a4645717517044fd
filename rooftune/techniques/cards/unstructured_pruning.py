"""Unstructured pruning: single weights set to zero."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import advice, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="unstructured_pruning",
    title="Unstructured and 2:4 pruning",
    family="weights",
    problem=1,
    summary="Sets single weights to zero. Zeros bring no speed by themselves: a dense kernel multiplies them as before, and a sparse format pays only far beyond 50 % or with hardware for 2:4.",
    questions=questions(1),
    lossless=False,
    can_worsen=(
        "quality (50 %: perplexity times 1.3 to 2 by good methods)",
        "speed, where a sparse format is read at a density that it does not suit",
    ),
    evidence_of_active="share of zeros in the weights, and a kernel that skips them",
    source="Frantar and Alistarh 2023 (SparseGPT, arXiv 2301.00774); Sun et al. 2023 (Wanda, arXiv 2306.11695)",
    answers=("mem_oom",),
    applies=advice(
        "zeros make no dense kernel faster and no file smaller without a sparse format; two large servers removed their 2:4 kernels for lack of use"
    ),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
