"""From slices of sequences to one attention plan: positions, page tables, write slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from rooftune.engine.contracts import SequenceSlice
from rooftune.kernels.contracts import AttentionPlan


def attention_plan(slices: Sequence[SequenceSlice], page_size: int) -> AttentionPlan:
    """Plan of one step; causal. Raises ValueError for a page table too short for its tokens."""
    lengths = np.array([len(one.tokens) for one in slices], dtype=np.int64)
    contexts = np.array([one.context for one in slices], dtype=np.int64)
    if (lengths < 1).any() or (contexts < 0).any():
        raise ValueError("every slice needs at least one new token and a context of 0 or more")
    totals = lengths + contexts
    for one, total in zip(slices, totals.tolist(), strict=True):
        if len(one.pages) * page_size < total:
            raise ValueError(f"{len(one.pages)} pages of {page_size} cannot hold {total} tokens")
        if not 0 <= one.logits <= len(one.tokens):
            raise ValueError(f"logits of {one.logits} positions asked of {len(one.tokens)} new tokens")
    starts = np.concatenate([[0], np.cumsum(lengths)])
    tables = np.zeros((len(slices), max(len(one.pages) for one in slices)), dtype=np.int32)
    for row, one in enumerate(slices):
        tables[row, : len(one.pages)] = one.pages
    owners = np.repeat(np.arange(len(slices)), lengths)
    positions = np.arange(starts[-1]) - starts[owners] + contexts[owners]
    slots = tables[owners, positions // page_size].astype(np.int64) * page_size + positions % page_size
    return AttentionPlan(
        query_starts=torch.from_numpy(starts.astype(np.int32)),
        context_lengths=torch.from_numpy(contexts.astype(np.int32)),
        page_tables=torch.from_numpy(tables),
        positions=torch.from_numpy(positions.astype(np.int32)),
        slot_mapping=torch.from_numpy(slots),
    )


def logit_rows(slices: Sequence[SequenceSlice]) -> torch.Tensor:
    """Rows of the step, int64, whose logits are wanted: the last ``logits`` positions of each slice."""
    rows: list[int] = []
    end = 0
    for one in slices:
        end += len(one.tokens)
        rows.extend(range(end - one.logits, end))
    return torch.tensor(rows, dtype=torch.int64)
