"""Pipeline parallelism: layers spread over devices."""

from __future__ import annotations

from rooftune.techniques.card import Card
from rooftune.techniques.parts import needs_switch, no_change, no_prediction
from rooftune.techniques.problems import questions

CARD = Card(
    name="pipeline_parallelism",
    title="Pipeline parallelism",
    family="parallel",
    problem=7,
    summary="Each device holds some of the layers and passes activations on. Little communication, so slow links do; a request alone gets no faster, and bubbles cost throughput at small batch.",
    questions=questions(7),
    lossless=True,
    can_worsen=(
        "latency of a request alone",
        "bubbles while stages wait",
    ),
    evidence_of_active="stages, and their idle share",
    source="Huang et al. 2018 (GPipe, arXiv 1811.06965)",
    answers=("mem_oom",),
    applies=needs_switch("pipeline_parallel"),
    change=no_change,
    predict=no_prediction,
    notes=(),
)
