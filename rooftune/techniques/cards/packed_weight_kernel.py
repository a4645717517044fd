"""Packed weight kernels: multiply on the file's own quantized grid."""

from __future__ import annotations

from rooftune.spec import Configuration
from rooftune.techniques.card import Applies, Card, Knob, PredictedEffect, TechniqueContext
from rooftune.techniques.parts import needs_switch
from rooftune.techniques.problems import questions


def _judge(context: TechniqueContext) -> Applies:
    if context.configuration.get("weight_kernel") != "reference":
        return Applies(False, "weights are multiplied in packed form already")
    return Applies(True, "weights are dequantized to float32 and read at 32 bits each in every step")


def _change(context: TechniqueContext) -> Configuration:
    return {"weight_kernel": "packed"}


def _predict(context: TechniqueContext) -> tuple[PredictedEffect, ...]:
    """4 to 8.5 bits instead of 32: at best the bytes' ratio (about 1 to 5), at worst little, where unpacking binds."""
    basis = "bytes per weight fall from 4 to between 0.56 and 1.06; unpacking costs arithmetic"
    return (PredictedEffect("tpot_mean", 0.15, 0.85, basis),)


CARD = Card(
    name="packed_weight_kernel",
    title="Packed weight kernels",
    family="kernels",
    problem=9,
    summary="Keeps 4-bit and 8-bit weights packed and unpacks them in registers while multiplying, so a step reads what the file holds instead of float32.",
    questions=questions(9),
    lossless=True,
    can_worsen=(
        "many rows at once (long prompts), where a float32 library may be faster",
        "rounding differs from float32 of the dequantized weights: measure the divergence",
    ),
    evidence_of_active="calls of the packed kernels, by counter",
    source="the method, problem 9; GGUF block formats",
    answers=("decode_bandwidth", "kernel_path", "launch_overhead"),
    applies=needs_switch("weight_kernel", _judge),
    change=_change,
    predict=_predict,
    knobs=(Knob("weight_kernel", ("packed",)),),
    in_engine=True,
    undoes_own_dequantization=True,
    notes=(
        "For a file that is quantized already (GGUF) this only undoes a dequantization of our own: it is no gain over a plain deployment of the file.",
    ),
)
