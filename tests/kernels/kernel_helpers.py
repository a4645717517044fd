"""Random weights, caches and plans for the tests of the kernels."""

from __future__ import annotations

import gguf
import numpy as np
import torch

from rooftune.kernels.contracts import AttentionPlan, LayerCache, StorageFormat, StoredTensor

TYPES: dict[str, gguf.GGMLQuantizationType] = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "bf16": gguf.GGMLQuantizationType.BF16,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
    "q4_1": gguf.GGMLQuantizationType.Q4_1,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
}


def stored(format: StorageFormat, n: int, k: int, seed: int = 0, scale: float = 1.0) -> StoredTensor:
    values = (np.random.default_rng(seed).normal(size=(n, k)) * scale).astype(np.float32)
    return StoredTensor("w", format, (n, k), gguf.quantize(values, TYPES[format]).view(np.uint8))


def random_cache(pages: int, groups: int, page_size: int, size: int, seed: int) -> LayerCache:
    generator = torch.Generator().manual_seed(seed)
    shape = (pages, groups, page_size, size)
    return LayerCache(torch.randn(shape, generator=generator), torch.randn(shape, generator=generator))


def copy_of(cache: LayerCache) -> LayerCache:
    return LayerCache(cache.keys.clone(), cache.values.clone())


def random_plan(
    lengths: list[tuple[int, int]], page_size: int, pages: int, seed: int, masked: bool = False
) -> AttentionPlan:
    """A step of sequences with (context, new) tokens each, on pages drawn without replacement."""
    generator = torch.Generator().manual_seed(seed)
    free = torch.randperm(pages, generator=generator).tolist()
    used = [-(-(context + new) // page_size) for context, new in lengths]
    tables = torch.zeros(len(lengths), max(used) + 1, dtype=torch.int32)
    positions: list[int] = []
    slots: list[int] = []
    masks: list[torch.Tensor] = []
    for i, (context, new) in enumerate(lengths):
        own = [free.pop() for _ in range(used[i])]
        tables[i, : used[i]] = torch.tensor(own, dtype=torch.int32)
        for t in range(context, context + new):
            positions.append(t)
            slots.append(own[t // page_size] * page_size + t % page_size)
        mask = torch.rand(new, new, generator=generator) < 0.5
        masks.append(mask | torch.eye(new, dtype=torch.bool))
    starts = np.concatenate([[0], np.cumsum([new for _, new in lengths])])
    return AttentionPlan(
        query_starts=torch.tensor(starts, dtype=torch.int32),
        context_lengths=torch.tensor([context for context, _ in lengths], dtype=torch.int32),
        page_tables=tables,
        positions=torch.tensor(positions, dtype=torch.int32),
        slot_mapping=torch.tensor(slots, dtype=torch.int64),
        mask=masks if masked else None,
    )
