"""Bytes: KV cache per token, and what one step must move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooftune.arithmetic.architectures import model_shape
from rooftune.arithmetic.shape import ModelShape


def kv_bytes_per_token(config: Mapping[str, Any] | ModelShape, element_bytes: float = 2.0) -> float:
    """Bytes that one token adds to the KV cache over all layers: layers * 2 * kv heads * head size * element, or the
    latent's size with MLA. Window layers are counted too: they grow until their window is full (see ``kv_bytes``)."""
    shape = model_shape(config)
    return element_bytes * sum(layer.attention.cache_elements for layer in shape.layers)


def kv_bytes(config: Mapping[str, Any] | ModelShape, context: int, element_bytes: float = 2.0) -> float:
    """Bytes that a sequence of ``context`` tokens must keep, window and chunk layers only what they can still see."""
    shape = model_shape(config)
    return element_bytes * sum(
        layer.attention.cache_elements * _kept(layer.attention.span, layer.attention.reach, context)
        for layer in shape.layers
    )


def kv_read_bytes(
    config: Mapping[str, Any] | ModelShape, context: float, element_bytes: float = 2.0
) -> float:
    """Bytes of KV that one decode row reads when ``context`` tokens are cached before it.

    The context is rounded to a whole token; a mean over rows may be given (exact without windows). An indexer reads
    its own key of every token and the latent of the selected ones only.
    """
    shape = model_shape(config)
    length = round(context)
    total = 0.0
    for layer in shape.layers:
        attention = layer.attention
        latent = attention.cache_elements - attention.index_size
        # The row's own key and value are written in this step and are in cache: only earlier tokens are read.
        seen = max(attention.visible(length + 1) - 1, 0)
        total += latent * seen + attention.index_size * length
    return element_bytes * total


def touched_experts(experts: int, per_token: int, tokens: int) -> float:
    """Expected distinct experts of a layer that ``tokens`` tokens reach under uniform routing: E (1 - (1 - k/E)^tokens).
    Real routing is skewed and touches fewer, so this is an upper estimate."""
    if experts == 0 or tokens <= 0:
        return 0.0
    return experts * (1.0 - (1.0 - per_token / experts) ** tokens)


def touched_share(config: Mapping[str, Any] | ModelShape, tokens: int) -> float:
    """Share of the weights (body and head) that a step with ``tokens`` tokens reads; 1 for a dense model."""
    shape = model_shape(config)
    if not shape.mixture:
        return 1.0
    always = shape.embedding + shape.final_vector
    read, whole = float(always), float(always)
    for layer in shape.layers:
        feed = layer.feed_forward
        fixed = layer.norms + layer.attention.matrix + layer.attention.vector + feed.dense + feed.vector
        each = feed.expert_matrix + feed.expert_vector
        read += fixed + touched_experts(feed.experts, feed.experts_per_token, tokens) * each
        whole += fixed + feed.experts * each
    return read / whole


def step_bytes(
    config: Mapping[str, Any] | ModelShape,
    weight_bytes: float,
    decode_rows: int,
    context_tokens: float,
    *,
    prefill_tokens: int = 0,
    prefill_context: float = 0.0,
    kv_element_bytes: float = 2.0,
) -> float:
    """Bytes that one step must move at least: weights once, KV of every row, the new KV written. Activations are left
    out: they stay in cache.

    weight_bytes: all weights that a step may read, head included (`WeightBytes.per_step`, or what the runtime tells);
    of a mixture only the touched share counts. context_tokens: sum over the decode rows of their cached tokens.
    prefill_context: tokens cached before the chunk of the prompt in this step; they are read once.
    """
    shape = model_shape(config)
    tokens = decode_rows + prefill_tokens
    if tokens == 0:
        return 0.0
    total = weight_bytes * touched_share(shape, tokens)
    if decode_rows:
        total += decode_rows * kv_read_bytes(shape, context_tokens / decode_rows, kv_element_bytes)
    if prefill_tokens:
        total += kv_read_bytes(shape, prefill_context, kv_element_bytes)
    return total + tokens * kv_bytes_per_token(shape, kv_element_bytes)


def decode_step_bytes(
    config: Mapping[str, Any] | ModelShape,
    weight_bytes: float,
    decode_rows: int,
    context_tokens: float,
    kv_element_bytes: float = 2.0,
) -> float:
    """Bytes that one decode step must move: the numerator of MBU. Arguments as in ``step_bytes``."""
    return step_bytes(config, weight_bytes, decode_rows, context_tokens, kv_element_bytes=kv_element_bytes)


def _kept(span: str, reach: int, context: int) -> int:
    return context if span == "full" else min(context, reach)
