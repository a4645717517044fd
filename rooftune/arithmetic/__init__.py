"""Parameters, operations, bytes moved and KV bytes per token from a configuration alone (no PyTorch)."""

from rooftune.arithmetic.architectures import READERS, REFUSED, model_shape
from rooftune.arithmetic.flops import decode_flops, prefill_flops, step_flops, useful_flops
from rooftune.arithmetic.memory import (
    decode_step_bytes,
    kv_bytes,
    kv_bytes_per_token,
    kv_read_bytes,
    step_bytes,
    touched_experts,
    touched_share,
)
from rooftune.arithmetic.parameters import (
    BITS_PER_WEIGHT,
    Parameters,
    WeightBytes,
    bits_per_weight,
    parameters,
    weight_bytes,
)
from rooftune.arithmetic.shape import ModelShape

__all__ = [
    "BITS_PER_WEIGHT",
    "READERS",
    "REFUSED",
    "ModelShape",
    "Parameters",
    "WeightBytes",
    "bits_per_weight",
    "decode_flops",
    "decode_step_bytes",
    "kv_bytes",
    "kv_bytes_per_token",
    "kv_read_bytes",
    "model_shape",
    "parameters",
    "prefill_flops",
    "step_bytes",
    "step_flops",
    "touched_experts",
    "touched_share",
    "useful_flops",
    "weight_bytes",
]
