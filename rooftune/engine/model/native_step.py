"""A Llama model as the native plan wants it: a whole step in one call, without Python between operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from rooftune.engine.model.shape import ModelShape
from rooftune.engine.model.weights import LayerWeights, LlamaWeights
from rooftune.kernels.contracts import Operators

if TYPE_CHECKING:
    from rooftune.kernels.plan import DecoderLayer, NativePlan


def native_plan(
    operators: Operators, shape: ModelShape, weights: LlamaWeights, frequencies: torch.Tensor
) -> tuple[NativePlan | None, str | None]:
    """The plan, or None and the reason why steps run operator by operator."""
    if operators.name != "packed":
        return None, f"the {operators.name} operators run one by one"
    if shape.attention_bias or shape.attention_output_bias:
        return None, "the whole-step plan has no biases; this model's attention has"
    from rooftune.kernels.native_cpu import NativeOperators
    from rooftune.kernels.plan import Decoder, NativePlan

    if not isinstance(operators, NativeOperators):
        return None, "these packed operators have no whole-step plan"
    decoder = Decoder(
        embedding=weights.embedding,
        layers=[_layer(layer) for layer in weights.layers],
        final_norm=weights.norm,
        head=weights.head,
        heads=shape.heads,
        groups=shape.kv_heads,
        head_size=shape.head_size,
        frequencies=frequencies,
        epsilon=shape.norm_epsilon,
    )
    return NativePlan(operators, decoder), None


def _layer(layer: LayerWeights) -> DecoderLayer:
    from rooftune.kernels.plan import DecoderLayer

    return DecoderLayer(
        attention_norm=layer.attention_norm,
        query=layer.query.weight,
        key=layer.key.weight,
        value=layer.value.weight,
        output=layer.attention_output.weight,
        feed_forward_norm=layer.feed_forward_norm,
        gate=layer.gate.weight,
        up=layer.up.weight,
        down=layer.down.weight,
    )
