"""Drawing tokens from logits: greedy, temperature, top-k, top-p, with one random stream per request.

Each random row is drawn by itself, so what a request gets does not depend on its neighbours in the batch.
Order as in the field: temperature, then top-k, then top-p on what top-k left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from rooftune.engine.contracts import SamplingParameters, TokenLogprob

_FIRST_CANDIDATES = 256
"""Most likely tokens that top-p looks at first; a full sort of the vocabulary is rarely needed."""


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
        if sampling.temperature > 0:
            if generator is None:
                raise ValueError("a request with a temperature needs a generator")
            token = draw(logits[row], sampling, generator)
        draws.append(Draw(token, raw_logprob(logits[row], token, sampling.logprobs)))
    return draws


def draw(logits: torch.Tensor, sampling: SamplingParameters, generator: torch.Generator) -> int:
    """One token from a row of logits [vocabulary]; takes exactly one uniform number from the generator."""
    tokens, probabilities = allowed(logits, sampling)
    cumulative = probabilities.cumsum(0)
    uniform = torch.rand((), generator=generator, dtype=torch.float64)
    index = int(torch.searchsorted(cumulative, uniform * cumulative[-1], right=True))
    index = min(index, len(probabilities) - 1)
    # Rounding can leave the last places without mass.
    while index > 0 and probabilities[index] == 0:
        index -= 1
    return index if tokens is None else int(tokens[index])


def allowed(logits: torch.Tensor, sampling: SamplingParameters) -> tuple[torch.Tensor | None, torch.Tensor]:
    """Tokens that may be drawn and their weights, float64, not normalised; tokens None: the whole vocabulary.

    top_p keeps the smallest set of most likely tokens whose mass is at least top_p (so never an empty one).
    """
    vocabulary = logits.shape[0]
    scaled = (logits.double() - logits.max().double()) / sampling.temperature
    if 0 < sampling.top_k < vocabulary:
        values, tokens = scaled.topk(sampling.top_k)
        weights = values.exp()
        if sampling.top_p < 1:
            kept = _nucleus(weights, float(weights.sum()), sampling.top_p)
            return tokens[:kept], weights[:kept]
        return tokens, weights
    if sampling.top_p >= 1:
        return None, scaled.exp()
    total = float(scaled.exp().sum())
    candidates = min(_FIRST_CANDIDATES, vocabulary)
    while True:
        values, tokens = scaled.topk(candidates)
        weights = values.exp()
        if candidates == vocabulary or float(weights.sum()) >= sampling.top_p * total:
            kept = _nucleus(weights, total, sampling.top_p)
            return tokens[:kept], weights[:kept]
        candidates = min(candidates * 16, vocabulary)


def _nucleus(weights: torch.Tensor, total: float, top_p: float) -> int:
    """How many of the weights, largest first, reach the share ``top_p`` of ``total``."""
    before = weights.cumsum(0) - weights
    return max(1, int((before < top_p * total).sum()))


def raw_logprob(logits: torch.Tensor, token: int, top: int | None) -> TokenLogprob | None:
    """Log-probability of a token and of the ``top`` most likely ones, in the model's own distribution.

    Raw: before temperature, top-k and top-p, so it tells what the model thinks, not how the token was drawn.
    """
    if top is None:
        return None
    normaliser = torch.logsumexp(logits.double(), dim=-1)
    chosen = float(logits[token].double() - normaliser)
    if top == 0:
        return TokenLogprob(token, chosen)
    values, indices = logits.topk(min(top, logits.shape[0]))
    pairs = zip(indices.tolist(), (values.double() - normaliser).tolist(), strict=True)
    return TokenLogprob(token, chosen, tuple(pairs))
