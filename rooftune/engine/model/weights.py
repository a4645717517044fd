"""The weights of a Llama model in the form that a set of operators wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from rooftune.engine.model.source import StoredModel
from rooftune.kernels.contracts import Operators
from rooftune.kernels.stored import dequantize


@dataclass(frozen=True, slots=True)
class Projection:
    """A packed matrix and, where the model has one, a float32 bias [N]."""

    weight: Any
    bias: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class LayerWeights:
    attention_norm: torch.Tensor
    query: Projection
    key: Projection
    value: Projection
    attention_output: Projection
    feed_forward_norm: torch.Tensor
    gate: Projection
    up: Projection
    down: Projection

    def projections(self) -> tuple[Projection, ...]:
        """Every matrix of the layer, in the order of use."""
        return (self.query, self.key, self.value, self.attention_output, self.gate, self.up, self.down)


@dataclass(frozen=True, slots=True)
class LlamaWeights:
    """``head`` is the very same object as ``embedding`` when the model ties them: one matrix in memory."""

    embedding: Any
    layers: tuple[LayerWeights, ...]
    norm: torch.Tensor
    head: Any

    def bytes_per_step(self, operators: Operators) -> int:
        """Bytes that one forward pass reads: every matrix, norm and bias once, the head included.

        An untied embedding is left out: of it only the rows of the step's tokens are read.
        """
        total = self.norm.nbytes + self.head_bytes(operators)
        for layer in self.layers:
            total += layer.attention_norm.nbytes + layer.feed_forward_norm.nbytes
            for projection in layer.projections():
                total += operators.weight_bytes(projection.weight)
                total += 0 if projection.bias is None else projection.bias.nbytes
        return total

    def head_bytes(self, operators: Operators) -> int:
        """Bytes that the output head reads."""
        return operators.weight_bytes(self.head)


def pack_weights(model: StoredModel, operators: Operators) -> LlamaWeights:
    """Pack every matrix of a stored model for ``operators``; vectors become float32 tensors."""

    def vector(name: str) -> torch.Tensor:
        return torch.from_numpy(dequantize(model.tensors[name]))

    def projection(name: str) -> Projection:
        bias = f"{name}.bias"
        packed = operators.pack(model.tensors[f"{name}.weight"])
        return Projection(packed, vector(bias) if bias in model.tensors else None)

    def layer(at: str) -> LayerWeights:
        return LayerWeights(
            attention_norm=vector(f"{at}.input_layernorm.weight"),
            query=projection(f"{at}.self_attn.q_proj"),
            key=projection(f"{at}.self_attn.k_proj"),
            value=projection(f"{at}.self_attn.v_proj"),
            attention_output=projection(f"{at}.self_attn.o_proj"),
            feed_forward_norm=vector(f"{at}.post_attention_layernorm.weight"),
            gate=projection(f"{at}.mlp.gate_proj"),
            up=projection(f"{at}.mlp.up_proj"),
            down=projection(f"{at}.mlp.down_proj"),
        )

    embedding = operators.pack(model.tensors["model.embed_tokens.weight"])
    head = embedding if model.shape.tied_embedding else operators.pack(model.tensors["lm_head.weight"])
    return LlamaWeights(
        embedding=embedding,
        layers=tuple(layer(f"model.layers.{index}") for index in range(model.shape.layers)),
        norm=vector("model.norm.weight"),
        head=head,
    )
