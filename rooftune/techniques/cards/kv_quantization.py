"""KV quantization: fewer bits per cached key and value."""

from __future__ import annotations

from rooftune.techniques.card import Card, PredictedEffect, TechniqueContext
from rooftune.techniques.parts import bytes_bound, fact, needs_switch, no_change
from rooftune.techniques.problems import questions


def _predict(context: TechniqueContext) -> tuple[PredictedEffect, ...]:
    """Half the bytes of KV; the weights of the step stay."""
    kv = fact(context, "decode_kv_share")
    if kv is None:
        return ()
    return bytes_bound(context, 1.0 - 0.5 * kv, "half the KV bytes of a decode step, by its measured MBU")


CARD = Card(
    name="kv_quantization",
    title="KV quantization",
    family="kv",
    problem=3,
    summary="Keeps keys and values in 8 or 4 bits. Halves or quarters what each step reads of the context, and lets more tokens into the pool.",
    questions=questions(3),
    lossless=False,
    can_worsen=(
        "quality at 4 bits, most on long recall",
        "time to quantize and unpack where KV is a small share",
    ),
    evidence_of_active="kv_bytes_per_token of the served model fell",
    source="Liu et al. 2024 (KIVI, arXiv 2402.02750); Hooper et al. 2024 (KVQuant, arXiv 2401.18079)",
    answers=(
        "kv_bandwidth",
        "kv_capacity",
        "kv_thrash",
    ),
    applies=needs_switch("kv_format"),
    change=no_change,
    predict=_predict,
    notes=(
        "A one-pass perplexity cannot see its damage: measure prefill, then decode through the quantized cache.",
    ),
)
