"""What a set of operators must do: the fixed points where reference, native CPU and GPU meet.

Shapes: T new tokens of all sequences of a step laid end to end, B sequences, H query heads, G KV heads,
D head size, K input features, N output features. All activations are float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch

StorageFormat = Literal["f32", "f16", "bf16", "q4_0", "q4_1", "q8_0"]


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A weight as it lies in its file, not yet packed for any operator.

    ``shape`` is (N, K) for a matrix, (N,) for a vector; ``data`` is the raw bytes (uint8, often a memory map),
    row after row. Block formats are GGUF's: q4_0 (18 bytes per 32 values), q4_1 (20), q8_0 (34), along K.
    """

    name: str
    format: StorageFormat
    shape: tuple[int, ...]
    data: np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """Where each new token sits and what it may see; built once per step, shared by all layers.

    query_starts: int32 [B + 1], offsets of each sequence's new tokens in T.
    context_lengths: int32 [B], tokens committed in the KV cache before this step.
    page_tables: int32 [B, P], pages of each sequence in order, padded with 0.
    positions: int32 [T], true position of each new token.
    slot_mapping: int64 [T], page * page_size + offset at which the new token's key and value are written.
    mask: bool [T_i, T_i] per sequence (True = may attend) among the new tokens, or None for causal.
    """

    query_starts: torch.Tensor
    context_lengths: torch.Tensor
    page_tables: torch.Tensor
    positions: torch.Tensor
    slot_mapping: torch.Tensor
    mask: list[torch.Tensor] | None = None


@dataclass(slots=True)
class LayerCache:
    """Keys and values of one layer, float32 [pages, G, page_size, D] each; keys are stored rotated."""

    keys: torch.Tensor
    values: torch.Tensor


class Operators(Protocol):
    """One implementation of every operator of a decoder layer."""

    name: str

    def pack(self, weight: StoredTensor) -> Any:
        """Turn a stored matrix into this implementation's own form (opaque to the caller)."""
        ...

    def weight_bytes(self, weight: Any) -> int:
        """Bytes that one use of the packed weight reads."""
        ...

    def embedding(self, tokens: torch.Tensor, weight: Any) -> torch.Tensor:
        """Rows of the table: int64 [T] -> float32 [T, K]."""
        ...

    def linear(self, x: torch.Tensor, weight: Any) -> torch.Tensor:
        """x [T, K] times weight (N, K) transposed -> [T, N]."""
        ...

    def rms_norm(self, x: torch.Tensor, gain: torch.Tensor, epsilon: float) -> torch.Tensor:
        """x / sqrt(mean(x^2) + epsilon) * gain over the last dimension."""
        ...

    def rotary(self, x: torch.Tensor, positions: torch.Tensor, frequencies: torch.Tensor) -> torch.Tensor:
        """Rotate x [T, heads, D] by positions [T] with frequencies [D / 2]; half-split (Hugging Face) pairing."""
        ...

    def silu_mul(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        """silu(gate) * up, [T, F] each."""
        ...

    def attention(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        cache: LayerCache,
        plan: AttentionPlan,
    ) -> torch.Tensor:
        """Write the new keys and values [T, G, D] into the cache, then attend with queries [T, H, D] -> [T, H, D]."""
        ...

    def counters(self) -> dict[str, int]:
        """Calls by kernel, so that it can be shown which one was on."""
        ...
