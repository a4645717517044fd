"""How many parameters a model has, and how many bytes they take in a storage format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rooftune.arithmetic.architectures import model_shape
from rooftune.arithmetic.shape import ModelShape
from rooftune.errors import WrongInput

BITS_PER_WEIGHT: dict[str, float] = {
    "f32": 32.0,
    "f16": 16.0,
    "bf16": 16.0,
    "fp8": 8.0,
    "int8": 8.0,
    "q8_0": 8.5,
    "q6_k": 6.5625,
    "q5_1": 6.0,
    "q5_0": 5.5,
    "q4_1": 5.0,
    "q4_0": 4.5,
    "q4_k": 4.5,
    "int4": 4.0,
    "int4_g128": 4.125,
    "nvfp4": 4.5,
    "mxfp4": 4.25,
}
"""Bits per weight with the format's own scales: GGUF blocks of 32 (q*_0 one f16 scale, q*_1 scale and minimum) and 256
(k-quants), mxfp4 one byte per 32, nvfp4 one byte per 16, int4_g128 one f16 scale per 128. fp8, int8 and int4 are bare."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Counts of elements. ``head`` is 0 when it is tied to the embedding (then it is stored once)."""

    total: int
    active: int
    """Used by one token: chosen experts only, embedding and head included (one table when tied)."""
    embedding: int
    head: int
    body: int
    """Everything between embedding and head."""
    body_active: int

    @property
    def without_embedding(self) -> int:
        """Total without embedding and head, as some model cards count."""
        return self.body


def parameters(config: Mapping[str, Any] | ModelShape) -> Parameters:
    """Count the parameters of a configuration."""
    shape = model_shape(config)
    head = 0 if shape.tied else shape.embedding
    body = shape.body_matrix + shape.vectors
    active = shape.body_matrix_active + shape.vectors_active
    return Parameters(
        total=body + shape.embedding + head,
        active=active + shape.embedding + head,
        embedding=shape.embedding,
        head=head,
        body=body,
        body_active=active,
    )


def bits_per_weight(format_or_bits: str | float) -> float:
    """Bits of one weight of a named format, or the number itself."""
    if isinstance(format_or_bits, str):
        bits = BITS_PER_WEIGHT.get(format_or_bits.lower())
        if bits is None:
            from rooftune.spec.nearest import nearest

            raise WrongInput(
                f"unknown weight format '{format_or_bits}'{nearest(format_or_bits, BITS_PER_WEIGHT)}"
            )
        return bits
    if not 0 < format_or_bits <= 64:
        raise WrongInput(f"{format_or_bits} bits per weight cannot be")
    return float(format_or_bits)


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """Bytes of the weights. ``stored``: all of them; ``per_step``: what a step may read (head included; of an untied
    embedding table only single rows are read, so it is left out; every expert counted)."""

    stored: float
    per_step: float


def weight_bytes(
    config: Mapping[str, Any] | ModelShape,
    weights: str | float,
    *,
    embedding: str | float | None = None,
    vectors: str | float = 32.0,
) -> WeightBytes:
    """Bytes of the weights in a format (name or bits): layer matrices in ``weights``, embedding and head in
    ``embedding`` (None: the same), norms and biases in ``vectors``."""
    shape = model_shape(config)
    table = bits_per_weight(weights if embedding is None else embedding) / 8 * shape.embedding
    body = bits_per_weight(weights) / 8 * shape.body_matrix + bits_per_weight(vectors) / 8 * shape.vectors
    return WeightBytes(stored=body + table * (1 if shape.tied else 2), per_step=body + table)
