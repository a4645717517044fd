"""Useful operations: what the model's definition needs, a multiply-accumulate counted as two.

Useful means: no recomputation, no padding, no prefix that was cached, the head only where a token is sampled. Norms,
softmax, rotations and activations are left out (below 1 % of a decoder's operations). Linear layers: 2 * active
elements * tokens. Attention: 2 * heads * (key size + value size) per query-key pair, pairs counted causally.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooftune.arithmetic.architectures import model_shape
from rooftune.arithmetic.shape import Attention, ModelShape


def prefill_flops(
    config: Mapping[str, Any] | ModelShape, tokens: int, *, cached: int = 0, sampled: int = 1
) -> float:
    """Operations to compute ``tokens`` new prompt tokens behind ``cached`` ones, with ``sampled`` rows of the head."""
    shape = model_shape(config)
    linear = 2.0 * shape.body_matrix_active * tokens + 2.0 * shape.embedding * sampled
    attention = sum(
        _pair_flops(layer.attention, cached, cached + tokens, decode=False) for layer in shape.layers
    )
    return linear + attention


def decode_flops(config: Mapping[str, Any] | ModelShape, context: float, *, rows: int = 1) -> float:
    """Operations of one decode step of ``rows`` sequences that each hold ``context`` tokens before it."""
    shape = model_shape(config)
    linear = 2.0 * (shape.body_matrix_active + shape.embedding)
    length = round(context)
    attention = sum(_pair_flops(layer.attention, length, length + 1, decode=True) for layer in shape.layers)
    return rows * (linear + attention)


def step_flops(
    config: Mapping[str, Any] | ModelShape,
    *,
    prefill_tokens: int = 0,
    prefill_context: int = 0,
    decode_rows: int = 0,
    context_tokens: float = 0.0,
    sampled: int | None = None,
) -> float:
    """Operations of one mixed step. ``context_tokens`` is the sum over the decode rows of what each has cached;
    ``sampled`` rows of the head beyond the decode rows (None: 1 where there is prefill)."""
    total = 0.0
    if prefill_tokens:
        rows = 1 if sampled is None else sampled
        total += prefill_flops(config, prefill_tokens, cached=prefill_context, sampled=rows)
    if decode_rows:
        total += decode_flops(config, context_tokens / decode_rows, rows=decode_rows)
    return total


def useful_flops(
    config: Mapping[str, Any] | ModelShape, prompt_tokens: int, cached_tokens: int, output_tokens: int
) -> float:
    """Operations that one whole request needs: its prompt without what was cached, then output - 1 decode steps
    (the first token comes from the prefill). At least one prompt token is always computed."""
    if output_tokens <= 0 and prompt_tokens <= cached_tokens:
        return 0.0
    shape = model_shape(config)
    cached = min(cached_tokens, max(prompt_tokens - 1, 0))
    total = prefill_flops(shape, prompt_tokens - cached, cached=cached, sampled=1 if output_tokens > 0 else 0)
    steps = max(output_tokens - 1, 0)
    if steps:
        total += 2.0 * (shape.body_matrix_active + shape.embedding) * steps
        total += sum(
            _pair_flops(layer.attention, prompt_tokens, prompt_tokens + steps, decode=True)
            for layer in shape.layers
        )
    return total


def _pair_flops(attention: Attention, start: int, end: int, *, decode: bool) -> float:
    """Attention of the queries at positions start … end - 1, and of the indexer that scores every earlier token."""
    keys = attention.decode_key_size if decode else attention.key_size
    values = attention.decode_value_size if decode else attention.value_size
    flops = 2.0 * attention.heads * (keys + values) * attention.pairs(start, end)
    if attention.index_heads:
        scored = (end * (end + 1) - start * (start + 1)) / 2
        flops += 2.0 * attention.index_heads * attention.index_size * scored
    return flops
