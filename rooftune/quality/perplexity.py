"""Perplexity of both models on the same tokens, and their ratio with a paired interval by document.

ppl = exp(sum NLL / N), N scored tokens (all but the first of each document; the begin token goes first where the model wants one;
each document by itself, context = the document). Token perplexity compares only models with the same tokenizer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rooftune.quality.divergence import TokenScores, cluster_interval
from rooftune.store.result import Interval


@dataclass(frozen=True, slots=True)
class Perplexity:
    base: float
    changed: float
    ratio: Interval
    """changed / base, 95 %, paired by document."""
    bits_per_byte_base: float
    bits_per_byte_changed: float
    tokens: int


def perplexity(scores: Sequence[TokenScores], text_bytes: int) -> Perplexity:
    """From scored documents and the bytes of their texts. Raises ValueError without tokens."""
    sizes = np.array([len(s.nll_base) for s in scores], dtype=np.float64)
    total = float(sizes.sum())
    if total == 0 or text_bytes <= 0:
        raise ValueError("perplexity needs at least two tokens of text")
    base = float(sum(s.nll_base.sum() for s in scores))
    changed = float(sum(s.nll_changed.sum() for s in scores))
    differences = np.array([(s.nll_changed - s.nll_base).sum() for s in scores])
    log_ratio = cluster_interval(differences, sizes)
    return Perplexity(
        base=math.exp(base / total),
        changed=_exp(changed / total),
        ratio=Interval(_exp(log_ratio.value), _exp(log_ratio.low), _exp(log_ratio.high)),
        bits_per_byte_base=base / math.log(2) / text_bytes,
        bits_per_byte_changed=changed / math.log(2) / text_bytes,
        tokens=round(total),
    )


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0)) if value > -math.inf else 0.0
