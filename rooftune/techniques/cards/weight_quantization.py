"""Weight quantization: fewer bits per weight."""

from __future__ import annotations

from rooftune.techniques.card import Card, PredictedEffect, TechniqueContext
from rooftune.techniques.parts import bytes_bound, fact, needs_switch, no_change
from rooftune.techniques.problems import questions


def _predict(context: TechniqueContext) -> tuple[PredictedEffect, ...]:
    """Half the bits of the weights; the KV of the step stays."""
    kv = fact(context, "decode_kv_share")
    if kv is None:
        return ()
    return bytes_bound(
        context, 1.0 - 0.5 * (1.0 - kv), "half the weight bytes of a decode step, by its measured MBU"
    )


CARD = Card(
    name="weight_quantization",
    title="Weight quantization",
    family="weights",
    problem=1,
    summary="Stores each weight in 8, 4 or fewer bits with a scale per group. A decode step at small batch reads every weight once, so its time falls with the bytes.",
    questions=questions(1),
    lossless=False,
    can_worsen=(
        "quality: small models lose more; 3 bits and less lose much",
        "prefill and large batches, where unpacking costs more than the bytes that it saves",
        "a file that is 4-bit already: a new grid on top adds error for nothing",
    ),
    evidence_of_active="weight_bytes of the served model fell, with the share of layers that were quantized",
    source="Frantar et al. 2022 (GPTQ, arXiv 2210.17323); Lin et al. 2023 (AWQ, arXiv 2306.00978)",
    answers=(
        "decode_bandwidth",
        "mem_oom",
        "kv_capacity",
    ),
    applies=needs_switch("weight_format"),
    change=no_change,
    predict=_predict,
    notes=("Weight-only quantization stops paying where a batch is large enough to be bound by arithmetic.",),
)
