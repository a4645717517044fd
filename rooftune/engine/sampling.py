"""Drawing tokens from logits: greedy, temperature, top-k, top-p, with one random stream per request.

Random rows are drawn in NumPy, one by one: each operation is too small for several threads, and what a request gets must not depend on its neighbours in the batch.
Order as in the field: temperature, then top-k, then top-p on what top-k left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from rooftune.engine.contracts import SamplingParameters, TokenLogprob

Array = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]

_THRESHOLDS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""Weights relative to the largest one at which top-p looks for its tokens; the whole vocabulary is rarely sorted."""


def request_generator(
    sampling: SamplingParameters, request_id: str, engine_seed: int
) -> torch.Generator | None:
    """The random stream of a request; None for greedy.

    Without a seed of its own the stream follows from the engine's seed and the request's id.
    """
    if sampling.temperature == 0:
        return None
    seed = sampling.seed
    if seed is None:
        text = f"{engine_seed}:{request_id}".encode()
        seed = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1
    generator = torch.Generator(device="cpu")
    generator.manual_seed(seed % 2**63)
    return generator


@dataclass(frozen=True, slots=True)
class Draw:
    """One token, with its log-probability where it was asked for; or why none could be drawn."""

    token: int
    logprob: TokenLogprob | None = None
    error: str | None = None


def sample(
    logits: torch.Tensor,
    parameters: Sequence[SamplingParameters],
    generators: Sequence[torch.Generator | None],
) -> list[Draw]:
    """A token for each row of ``logits``, float32 [rows, vocabulary]; a generator for each row that is not greedy.

    A row whose logits are not finite at the top gives a Draw with an error and does not disturb the others.
    """
    if logits.ndim != 2 or logits.shape[0] != len(parameters):
        raise ValueError(
            f"logits have shape {tuple(logits.shape)}, but {len(parameters)} rows are to be sampled"
        )
    if not parameters:
        return []
    best, argmax = logits.max(dim=-1)
    tokens: list[int] = argmax.tolist()
    finite: list[bool] = torch.isfinite(best).tolist()
    draws = []
    for row, (sampling, generator) in enumerate(zip(parameters, generators, strict=True)):
        if not finite[row]:
            draws.append(Draw(-1, error="the model's logits are not finite"))
            continue
        token = tokens[row]
        if sampling.temperature == 0 and sampling.logprobs is None:
            draws.append(Draw(token))
            continue
        values: Array = logits[row].cpu().numpy()
        if sampling.temperature > 0:
            if generator is None:
                raise ValueError("a request with a temperature needs a generator")
            token = draw(values, sampling, generator)
        draws.append(Draw(token, raw_logprob(values, token, sampling.logprobs)))
    return draws


def draw(logits: Array, sampling: SamplingParameters, generator: torch.Generator) -> int:
    """One token from a row of logits [vocabulary]; takes exactly one uniform number from the generator."""
    tokens, weights = allowed(logits, sampling)
    cumulative = np.cumsum(weights, dtype=np.float64)
    uniform = float(torch.rand((), generator=generator, dtype=torch.float64))
    # The last place that has any mass bounds the search: rounding must not reach behind it.
    last = int(np.searchsorted(cumulative, cumulative[-1], side="left"))
    index = min(int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right")), last)
    return index if tokens is None else int(tokens[index])


def allowed(logits: Array, sampling: SamplingParameters) -> tuple[Indices | None, Array]:
    """Tokens that may be drawn and their weights, not normalised; tokens None: the whole vocabulary.

    top_p keeps the smallest set of most likely tokens whose mass is at least top_p (so never an empty one).
    """
    with np.errstate(over="ignore"):
        weights: Array = np.exp((logits - logits.max()) / np.float32(max(sampling.temperature, 1e-30)))
    tokens: Indices | None = None
    if 0 < sampling.top_k < len(logits):
        tokens = np.argpartition(-logits, sampling.top_k - 1)[: sampling.top_k]
        weights = weights[tokens]
    if sampling.top_p < 1:
        places = _nucleus(weights, sampling.top_p)
        tokens = places if tokens is None else tokens[places]
        weights = weights[places]
    return tokens, weights


def _nucleus(weights: Array, top_p: float) -> Indices:
    """Places of the largest weights, largest first, that reach the share ``top_p`` of their sum.

    The weights above a threshold hold the whole nucleus as soon as their sum reaches the share, so only these
    few are sorted.
    """
    wanted = top_p * float(weights.sum(dtype=np.float64))
    places: Indices = np.arange(len(weights))
    for threshold in (*_THRESHOLDS, 0.0):
        candidates = np.flatnonzero(weights >= threshold)
        if float(weights[candidates].sum(dtype=np.float64)) >= wanted:
            places = candidates
            break
    places = places[np.argsort(-weights[places], kind="stable")]
    largest = weights[places].astype(np.float64)
    before = np.cumsum(largest) - largest
    return places[: max(1, int((before < wanted).sum()))]


def raw_logprob(logits: Array, token: int, top: int | None) -> TokenLogprob | None:
    """Log-probability of a token and of the ``top`` most likely ones, in the model's own distribution.

    Raw: before temperature, top-k and top-p, so it tells what the model thinks, not how the token was drawn.
    """
    if top is None:
        return None
    highest = float(logits.max())
    normaliser = highest + float(np.log(np.exp(logits - highest).sum(dtype=np.float64)))
    chosen = float(logits[token]) - normaliser
    if top == 0:
        return TokenLogprob(token, chosen)
    count = min(top, len(logits))
    best = np.argpartition(-logits, count - 1)[:count]
    best = best[np.argsort(-logits[best], kind="stable")]
    pairs = tuple((int(index), float(logits[index]) - normaliser) for index in best)
    return TokenLogprob(token, chosen, pairs)
