"""What can be compared of two servers over HTTP: greedy answers to the same prompts, with the server's top alternatives.

Both answers are compared as far as their contexts are equal: up to and including the first token that differs. The KL over the
reported alternatives with one bucket for the rest can only be smaller than that of the full distribution (data processing
inequality), so it is labelled a lower bound.
"""

from __future__ import annotations

import http.client
import json
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.quality.divergence import cluster_interval, share_interval
from rooftune.store.result import Interval

PROMPTS = (
    "Name three things that float on water and say why they do.",
    "Write one sentence about a dog that is afraid of the rain.",
    "What is 17 plus 25? Explain each step.",
    "Translate into French: The library opens at nine in the morning.",
    "Give me a short list of tools for a small garden.",
    "Write a Python function that returns the largest number of a list.",
    "Who was the first person to walk on the moon, and when was it?",
    "Explain to a child why leaves turn red in autumn.",
    "Write a polite reply to a customer whose parcel is late.",
    "Which is heavier, a kilogram of iron or a kilogram of feathers?",
    "Summarise in one sentence what a bank does.",
    "Continue the story: The door was open, and nobody was inside.",
)
_TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class Generated:
    """One greedy answer: its tokens as text, and per position the natural-log probabilities of the top alternatives."""

    tokens: tuple[str, ...]
    top: tuple[Mapping[str, float], ...]


@dataclass(frozen=True, slots=True)
class HttpAgreement:
    """``agreement``: share of compared positions with the same first choice. ``kl_lower_bound``: nats; None without alternatives.

    ``identical``: prompts whose whole answers are equal. ``margins``: at each first difference, by how much the baseline preferred
    its own token (nats); a tiny margin is a rounding tie, a large one is damage.
    """

    prompts: int
    positions: int
    identical: int
    agreement: Interval
    kl_lower_bound: Interval | None
    match_length_mean: float
    margins: tuple[float, ...]
    statement: str


def generate(
    url: str,
    model: str,
    *,
    prompts: Sequence[str] = PROMPTS,
    maximum_tokens: int = 32,
    alternatives: int = 5,
    concurrency: int = 1,
    headers: Mapping[str, str] | None = None,
) -> list[Generated]:
    """Greedy answers with logprobs. ``concurrency`` above 1 makes the server batch, which is what scheduling changes touch."""
    if concurrency < 1:
        raise WrongInput("concurrency must be at least 1")

    def ask(prompt: str) -> Generated:
        return _ask(url, model, prompt, maximum_tokens, alternatives, headers or {})

    with ThreadPoolExecutor(concurrency) as pool:
        return list(pool.map(ask, prompts))


def compare_generated(base: Sequence[Generated], changed: Sequence[Generated]) -> HttpAgreement:
    """Compare answers to the same prompts, position by position while the contexts are equal."""
    if len(base) != len(changed) or not base:
        raise ValueError(
            f"{len(base)} answers against {len(changed)}; both servers must answer the same prompts"
        )
    hits, sizes, kl, margins = [], [], [], []
    identical = 0
    for one, other in zip(base, changed, strict=True):
        common = next(
            (i for i, (a, b) in enumerate(zip(one.tokens, other.tokens, strict=False)) if a != b),
            min(len(one.tokens), len(other.tokens)),
        )
        same = one.tokens == other.tokens
        identical += same
        differs = not same and common < min(len(one.tokens), len(other.tokens))
        compared = common + differs
        hits.append(float(common))
        sizes.append(float(max(compared, 1)))
        kl.append([_kl(one.top[i], other.top[i]) for i in range(min(compared, len(one.top), len(other.top)))])
        if differs and common < len(one.top):
            preferred = one.top[common].get(one.tokens[common])
            instead = one.top[common].get(other.tokens[common])
            if preferred is not None:
                margins.append(preferred - instead if instead is not None else math.inf)
    agreement = share_interval(np.array(hits), np.array(sizes))
    known = [k for k in kl if k]
    bound = None
    if known:
        bound = cluster_interval(np.array([sum(k) for k in known]), np.array([float(len(k)) for k in known]))
    positions = round(sum(sizes))
    told = f"{identical} of {len(base)} greedy answers identical, {agreement.value:.1%} of {positions} positions agree"
    if bound is not None:
        told += f", KL at least {max(bound.value, 0.0):.2g} (lower bound from the top alternatives)"
    if margins:
        told += f"; largest margin at a first difference {max(margins):.2g} nats"
    return HttpAgreement(
        len(base), positions, identical, agreement, bound, float(np.mean(hits)), tuple(margins), told
    )


def _kl(base: Mapping[str, float], changed: Mapping[str, float]) -> float:
    """KL over the tokens that both list, all else in one bucket."""
    shared = base.keys() & changed.keys()
    p = [math.exp(base[t]) for t in shared]
    q = [math.exp(changed[t]) for t in shared]
    p_rest, q_rest = max(0.0, 1.0 - sum(p)), max(0.0, 1.0 - sum(q))
    total = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0 and b > 0)
    if p_rest > 1e-9:
        total += p_rest * math.log(p_rest / max(q_rest, 1e-9))
    return max(0.0, total)


def _ask(
    url: str, model: str, prompt: str, maximum_tokens: int, alternatives: int, headers: Mapping[str, str]
) -> Generated:
    parts = urlsplit(url)
    if parts.hostname is None:
        raise WrongInput(f"'{url}' is not a URL")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=_TIMEOUT)
    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": maximum_tokens,
        "temperature": 0.0,
        "logprobs": True,
        "top_logprobs": alternatives,
    }
    path = parts.path.rstrip("/").removesuffix("/v1") + "/v1/chat/completions"
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        raw = response.read()
    except (OSError, http.client.HTTPException) as problem:
        raise EnvironmentProblem(f"{url} cannot be asked: {problem}") from None
    finally:
        connection.close()
    return _read(url, response.status, raw)


def _read(url: str, status: int, raw: bytes) -> Generated:
    try:
        answer: Any = json.loads(raw)
        if status != 200:
            raise EnvironmentProblem(f"{url} answered {status}: {str(answer)[:200]}")
        content = answer["choices"][0]["logprobs"]["content"]
        tokens = tuple(str(entry["token"]) for entry in content)
        top = tuple(
            {str(e["token"]): float(e["logprob"]) for e in [*entry.get("top_logprobs", ()), entry]}
            for entry in content
        )
    except (ValueError, KeyError, TypeError, IndexError):
        raise EnvironmentProblem(f"{url} gives no logprobs for its answers (status {status})") from None
    return Generated(tokens, top)
