"""Logits of a whole sequence, for likelihood and divergence; independent of any running engine."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rooftune.engine.contracts import SequenceSlice
from rooftune.engine.model.load import LoadedModel
from rooftune.errors import WrongInput

_PAGE = 16


def logits(loaded: LoadedModel, token_ids: Sequence[int], step: int = 256) -> torch.Tensor:
    """Logits after every token: float32 [T, V]; row t predicts token t + 1.

    Uses its own small page pool, so a runner that is serving is not disturbed. ``step``: most tokens in one
    forward pass; the result does not depend on it beyond rounding.
    """
    total = len(token_ids)
    if not 1 <= total <= loaded.shape.maximum_context:
        raise WrongInput(
            f"a text of {total} tokens cannot be scored; the model takes 1 to {loaded.shape.maximum_context}"
        )
    runner = loaded.runner.sharing_weights()
    pages = -(-total // _PAGE)
    runner.allocate(pages, _PAGE)
    parts = []
    for start in range(0, total, step):
        piece = tuple(token_ids[start : start + step])
        parts.append(runner.forward([SequenceSlice(piece, start, range(pages), len(piece))]))
    return torch.cat(parts)
