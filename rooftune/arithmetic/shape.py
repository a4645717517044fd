"""What a decoder consists of, in numbers: the common form that every architecture is read into."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Span = Literal["full", "window", "chunk"]


@dataclass(frozen=True, slots=True)
class Attention:
    """One layer's attention.

    matrix: elements of its projection matrices; vector: biases, norms, sinks.
    Without absorption a query-key pair costs 2 * heads * (key_size + value_size) operations. A latent attention
    (MLA) decodes absorbed: a pair then costs 2 * heads * (decode_key_size + decode_value_size), and what is cached
    is the latent.
    """

    matrix: int
    vector: int
    heads: int
    key_size: int
    value_size: int
    cache_elements: int
    """Elements that one token adds to this layer's cache."""
    decode_key_size: int
    decode_value_size: int
    span: Span = "full"
    reach: int = 0
    """Window or chunk length in tokens; 0 with span "full"."""
    index_matrix: int = 0
    """Elements of the indexer's matrices (sparse attention); they are also part of ``matrix``."""
    index_heads: int = 0
    index_size: int = 0
    index_top: int = 0
    """Tokens that the indexer selects for each query; 0 without an indexer."""

    def visible(self, context: int) -> int:
        """Tokens that a query at the end of ``context`` tokens (itself counted) attends to."""
        if self.span == "window":
            context = min(context, self.reach)
        elif self.span == "chunk":
            context = (context - 1) % self.reach + 1 if context > 0 else 0
        return min(context, self.index_top) if self.index_top else context

    def pairs(self, start: int, end: int) -> int:
        """Query-key pairs of the causal queries at positions ``start`` … ``end`` - 1: sum of visible(i + 1)."""
        return self._pairs_before(end) - self._pairs_before(start)

    def _pairs_before(self, length: int) -> int:
        reach = self.reach
        if self.span == "chunk":
            if self.index_top:
                raise NotImplementedError("an indexer over chunked attention exists in no known model")
            full, rest = divmod(length, reach)
            return full * (reach * (reach + 1) // 2) + rest * (rest + 1) // 2
        limits = [limit for limit in (reach if self.span == "window" else 0, self.index_top) if limit]
        if not limits or length <= min(limits):
            return length * (length + 1) // 2
        limit = min(limits)
        return limit * (limit + 1) // 2 + (length - limit) * limit


@dataclass(frozen=True, slots=True)
class FeedForward:
    """One layer's feed-forward part: a dense one, experts, or both side by side."""

    dense: int = 0
    """Elements of the matrices that every token uses: dense layer or shared experts, and the router."""
    vector: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_matrix: int = 0
    """Elements of one expert's matrices."""
    expert_vector: int = 0
    """Biases of one expert."""


@dataclass(frozen=True, slots=True)
class Layer:
    attention: Attention
    feed_forward: FeedForward
    norms: int


@dataclass(frozen=True)
class ModelShape:
    """A decoder: layers, embedding, head. ``tied`` means that the head is the embedding's own matrix."""

    architecture: str
    hidden: int
    vocabulary: int
    tied: bool
    layers: tuple[Layer, ...]
    final_vector: int
    maximum_context: int | None

    @cached_property
    def embedding(self) -> int:
        """Elements of the embedding table."""
        return self.vocabulary * self.hidden

    @cached_property
    def body_matrix(self) -> int:
        """Elements of all matrices of the layers, every expert counted."""
        return sum(
            layer.attention.matrix
            + layer.feed_forward.dense
            + layer.feed_forward.experts * layer.feed_forward.expert_matrix
            for layer in self.layers
        )

    @cached_property
    def body_matrix_active(self) -> int:
        """Elements of the layers' matrices that one token is multiplied with."""
        return sum(
            layer.attention.matrix
            + layer.feed_forward.dense
            + layer.feed_forward.experts_per_token * layer.feed_forward.expert_matrix
            for layer in self.layers
        )

    @cached_property
    def vectors(self) -> int:
        """Norms, biases and sinks, every expert's counted."""
        return self.final_vector + sum(
            layer.norms
            + layer.attention.vector
            + layer.feed_forward.vector
            + layer.feed_forward.experts * layer.feed_forward.expert_vector
            for layer in self.layers
        )

    @cached_property
    def vectors_active(self) -> int:
        return self.final_vector + sum(
            layer.norms
            + layer.attention.vector
            + layer.feed_forward.vector
            + layer.feed_forward.experts_per_token * layer.feed_forward.expert_vector
            for layer in self.layers
        )

    @cached_property
    def mixture(self) -> bool:
        return any(layer.feed_forward.experts for layer in self.layers)
