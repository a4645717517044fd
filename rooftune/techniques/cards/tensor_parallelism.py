"""Tensor parallelism: each operator split over devices."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="tensor_parallelism",
    title="Tensor parallelism",
    family="parallel",
    problem=7,
    summary="Splits every matrix over devices that compute their part and add the results, twice a layer. First answers fitting; speeds a step up where links are fast.",
    questions=questions(7),
    lossless=True,
    can_worsen=(
        "two all-reduces a layer: small decode messages are bound by link latency",
        "throughput per device",
    ),
    evidence_of_active="world size, and bytes reduced per step",
    source="Shoeybi et al. 2019 (Megatron-LM, arXiv 1909.08053)",
    answers=(
        "mem_oom",
        "decode_bandwidth",
        "prefill_compute",
    ),
    applies=needs_switch("tensor_parallel"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
