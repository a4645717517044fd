"""Every operator in PyTorch, float32, slow and obvious: what the other implementations are measured against."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch

from rooftune.kernels.contracts import AttentionPlan, LayerCache, StoredTensor
from rooftune.kernels.stored import dequantize


@dataclass(frozen=True, slots=True)
class DenseWeight:
    """A matrix in float32, dequantized: values [N, K]."""

    values: torch.Tensor


class ReferenceOperators:
    """The operators as their formulas read; autograd works through all but the writes into the cache.

    ``threads`` sets PyTorch's number of threads for the whole process where it is given.
    """

    name = "reference"

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        self._calls: Counter[str] = Counter()

    def pack(self, weight: StoredTensor) -> DenseWeight:
        """Dequantize to float32 [N, K]; a copy, the stored bytes may go."""
        return DenseWeight(torch.from_numpy(dequantize(weight)))

    def weight_bytes(self, weight: DenseWeight) -> int:
        """Bytes that one use reads: four a value."""
        return weight.values.numel() * weight.values.element_size()

    def embedding(self, tokens: torch.Tensor, weight: DenseWeight) -> torch.Tensor:
        """int64 [T] -> float32 [T, K]."""
        self._calls["reference.embedding"] += 1
        return torch.nn.functional.embedding(tokens, weight.values)

    def linear(self, x: torch.Tensor, weight: DenseWeight) -> torch.Tensor:
        """x [T, K] -> [T, N]."""
        self._calls["reference.linear"] += 1
        return torch.nn.functional.linear(x, weight.values)

    def rms_norm(self, x: torch.Tensor, gain: torch.Tensor, epsilon: float) -> torch.Tensor:
        """x / sqrt(mean(x^2) + epsilon) * gain (Zhang and Sennrich, 2019)."""
        self._calls["reference.rms_norm"] += 1
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + epsilon) * gain

    def rotary(self, x: torch.Tensor, positions: torch.Tensor, frequencies: torch.Tensor) -> torch.Tensor:
        """Rotate the pair (i, i + D/2) of each head by position * frequencies[i] (Su et al., 2021), x [T, heads, D]."""
        self._calls["reference.rotary"] += 1
        angles = positions.to(torch.float32)[:, None] * frequencies[None, :]
        cosine, sine = angles.cos()[:, None, :], angles.sin()[:, None, :]
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)

    def silu_mul(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        """gate * sigmoid(gate) * up, [T, F]."""
        self._calls["reference.silu_mul"] += 1
        return torch.nn.functional.silu(gate) * up

    def attention(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        cache: LayerCache,
        plan: AttentionPlan,
    ) -> torch.Tensor:
        """Write keys and values [T, G, D] into the cache, then attend with queries [T, H, D] -> [T, H, D].

        Scores are scaled by 1 / sqrt(D); query head h reads KV head h // (H / G) (Ainslie et al., 2023).
        """
        self._calls["reference.attention"] += 1
        _, _, page_size, _ = cache.keys.shape
        pages, offsets = plan.slot_mapping // page_size, plan.slot_mapping % page_size
        cache.keys[pages, :, offsets] = keys.detach()
        cache.values[pages, :, offsets] = values.detach()
        outputs = []
        starts = plan.query_starts.tolist()
        for i, context in enumerate(plan.context_lengths.tolist()):
            new = slice(starts[i], starts[i + 1])
            mask = None if plan.mask is None else plan.mask[i]
            outputs.append(self._attend(queries[new], cache, plan.page_tables[i], context, mask))
        return torch.cat(outputs) if outputs else torch.empty_like(queries)

    def _attend(
        self,
        queries: torch.Tensor,
        cache: LayerCache,
        pages: torch.Tensor,
        context: int,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """One sequence: gather its context and its new tokens from the pages, then plain attention."""
        new, heads, size = queries.shape
        total = context + new
        _, groups, page_size, _ = cache.keys.shape
        used = pages[: -(-total // page_size)].long()
        gathered_keys = cache.keys[used].transpose(1, 2).reshape(-1, groups, size)[:total]
        gathered_values = cache.values[used].transpose(1, 2).reshape(-1, groups, size)[:total]
        repeated_keys = gathered_keys.repeat_interleave(heads // groups, dim=1)
        repeated_values = gathered_values.repeat_interleave(heads // groups, dim=1)
        scores = torch.einsum("thd,shd->hts", queries, repeated_keys) * size**-0.5
        among_new = torch.ones(new, new, dtype=torch.bool).tril() if mask is None else mask
        visible = torch.cat([torch.ones(new, context, dtype=torch.bool), among_new], dim=1)
        weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
        return torch.einsum("hts,shd->thd", weights, repeated_values)

    def counters(self) -> dict[str, int]:
        """Calls by kernel since the start."""
        return dict(self._calls)
