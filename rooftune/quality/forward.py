"""What quality asks of a model: logits of token sequences. Everything else here is arithmetic on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]


class Forward(Protocol):
    """A model that scores given tokens."""

    def logits(self, tokens: Sequence[int]) -> Logits:
        """float32 [T, V]: row t predicts token t + 1."""
        ...


class LocalForward:
    """The embedded engine's model in this process. ``step``: most tokens in one forward pass (changes only rounding)."""

    def __init__(self, loaded: Any, step: int = 256) -> None:
        self._loaded = loaded
        self._step = step

    def logits(self, tokens: Sequence[int]) -> Logits:
        from rooftune.engine.model.forward import logits

        result: Logits = logits(self._loaded, tokens, self._step).numpy()
        return result
