"""Divergence of a changed model from its baseline on the same tokens.

KL per position = sum over the vocabulary of p_base (ln p_base - ln p_changed), in nats, over the full distribution, exponentials in float32 and
sums in float64 (error about 1e-6). Top-1 agreement: both rank the same token first. Positions of one document depend on each other, so intervals
treat the document as the unit: the ratio estimator sum K_d / sum N_d with its linearised variance and Student's t with
D - 1 degrees of freedom (Cochran, Sampling Techniques, ratio estimation by clusters).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from rooftune.quality.forward import Logits
from rooftune.store.result import Interval

Array = npt.NDArray[np.float64]

_ROWS = 64


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Per position of one document. ``nll_*`` are of the token that follows (one fewer than positions)."""

    name: str
    kl: Array
    agree: npt.NDArray[np.bool_]
    nll_base: Array
    nll_changed: Array


@dataclass(frozen=True, slots=True)
class Divergence:
    """Over all documents. Nats; shares 0 to 1. ``flips``: positions at which the first choice changed."""

    documents: int
    positions: int
    kl_mean: Interval
    kl_p50: float
    kl_p90: float
    kl_p99: float
    kl_max: float
    agreement: Interval
    flips: int
    worst_document: str
    worst_document_kl: float


def score(name: str, base: Logits, changed: Logits, tokens: Sequence[int]) -> TokenScores:
    """Compare two models' logits [T, V] on a document of T tokens. Raises ValueError for different shapes or no numbers."""
    if base.shape != changed.shape or base.shape[0] != len(tokens):
        raise ValueError(
            f"{name}: logits of {base.shape} and {changed.shape} for {len(tokens)} tokens; both models must score the same"
        )
    kl = np.empty(len(tokens))
    agree = np.empty(len(tokens), dtype=np.bool_)
    nll_base, nll_changed = np.empty(len(tokens) - 1), np.empty(len(tokens) - 1)
    # A few rows at a time: the full float64 distributions of a long text would not fit.
    for start in range(0, len(tokens), _ROWS):
        rows = slice(start, min(start + _ROWS, len(tokens)))
        left, right = base[rows], changed[rows]
        left_max, right_max = left.max(axis=1, keepdims=True), right.max(axis=1, keepdims=True)
        weights = np.exp(left - left_max)
        left_sum = weights.sum(axis=1, dtype=np.float64)
        right_sum = np.exp(right - right_max).sum(axis=1, dtype=np.float64)
        left_norm = left_max[:, 0].astype(np.float64) + np.log(left_sum)
        right_norm = right_max[:, 0].astype(np.float64) + np.log(right_sum)
        # sum p (ln p - ln q) = sum p (b - c) - (ln Z_b - ln Z_c), which needs no second array of the vocabulary's size.
        apart = np.einsum("ij,ij->i", weights, left - right, dtype=np.float64) / left_sum
        # Rounding can make a sum of equal distributions slightly negative; KL is not.
        kl[rows] = np.maximum(apart - (left_norm - right_norm), 0.0)
        agree[rows] = left.argmax(axis=1) == right.argmax(axis=1)
        following = np.asarray(tokens[rows.start + 1 : rows.stop + 1], dtype=np.int64)
        index = np.arange(len(following))
        nll_base[rows.start : rows.start + len(following)] = left_norm[index] - left[index, following]
        nll_changed[rows.start : rows.start + len(following)] = right_norm[index] - right[index, following]
    if not np.isfinite(kl).all():
        raise ValueError(f"{name}: a model gave logits that are not finite")
    return TokenScores(name, kl, agree, nll_base, nll_changed)


def summarize(scores: Sequence[TokenScores], level: float = 0.95) -> Divergence:
    """All documents together. Raises ValueError without any."""
    if not scores:
        raise ValueError("no document was scored")
    kl = np.concatenate([s.kl for s in scores])
    sizes = np.array([len(s.kl) for s in scores], dtype=np.float64)
    sums = np.array([s.kl.sum() for s in scores])
    agreed = np.array([s.agree.sum() for s in scores], dtype=np.float64)
    means = sums / sizes
    worst = int(means.argmax())
    p50, p90, p99 = (float(q) for q in np.quantile(kl, [0.5, 0.9, 0.99]))
    mean = cluster_interval(sums, sizes, level)
    return Divergence(
        documents=len(scores),
        positions=len(kl),
        kl_mean=Interval(mean.value, max(0.0, mean.low), mean.high),
        kl_p50=p50,
        kl_p90=p90,
        kl_p99=p99,
        kl_max=float(kl.max()),
        agreement=share_interval(agreed, sizes, level),
        flips=int((sizes - agreed).sum()),
        worst_document=scores[worst].name,
        worst_document_kl=float(means[worst]),
    )


def cluster_interval(sums: Array, sizes: Array, level: float = 0.95) -> Interval:
    """Mean per position with its interval by document; one document gives an infinite one."""
    total = float(sizes.sum())
    mean = float(sums.sum()) / total
    count = len(sums)
    if count < 2:
        return Interval(mean, -math.inf, math.inf)
    variance = count / (count - 1) * float(((sums - mean * sizes) ** 2).sum()) / total**2
    half = float(special.stdtrit(count - 1, 0.5 + level / 2.0)) * math.sqrt(variance)
    return Interval(mean, mean - half, mean + half)


def share_interval(hits: Array, sizes: Array, level: float = 0.95) -> Interval:
    """A share with the wider of two intervals: by document, and the exact binomial one, which stays honest at 100 %."""
    clustered = cluster_interval(hits, sizes, level)
    n, k = round(float(sizes.sum())), round(float(hits.sum()))
    tail = (1.0 - level) / 2.0
    low = float(stats.beta.ppf(tail, k, n - k + 1)) if k > 0 else 0.0
    high = float(stats.beta.ppf(1.0 - tail, k + 1, n - k)) if k < n else 1.0
    return Interval(clustered.value, max(0.0, min(clustered.low, low)), min(1.0, max(clustered.high, high)))
