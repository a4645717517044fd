"""Configurations and requests that cannot work are refused before they start, with a reason to act on."""

from __future__ import annotations

import math

from rooftune.engine.contracts import EngineConfig, GenerationRequest
from rooftune.engine.policies import admission_policy, cached_positions, pages_for
from rooftune.errors import EnvironmentProblem, WrongInput


class RequestRefused(WrongInput, ValueError):
    """The request can never be served as it is."""


class RequestTooLong(RequestRefused):
    """Prompt and output together exceed the model's context or the whole page pool."""


class QueueFull(EnvironmentProblem):
    """Too many requests wait already; try again later."""


class EngineStopped(EnvironmentProblem):
    """The engine was stopped, or died; it takes no more requests."""


def check_config(config: EngineConfig) -> None:
    """Raise WrongInput for a configuration that cannot work."""
    admission_policy(config.batching)
    for name in ("slots", "token_budget", "page_size", "threads", "queue_limit"):
        value = getattr(config, name)
        if not isinstance(value, int) or value < 1:
            raise WrongInput(f"{name} is {value!r}; it must be a whole number of at least 1")
    if config.token_budget < config.slots:
        raise WrongInput(
            f"token_budget is {config.token_budget}, less than the {config.slots} slots: every running sequence "
            "needs a token per step; raise token_budget or lower slots"
        )
    if config.pool_tokens < config.page_size:
        raise WrongInput(
            f"pool_tokens is {config.pool_tokens}, less than one page of {config.page_size} tokens"
        )
    if not (config.batch_wait >= 0 and math.isfinite(config.batch_wait)):
        raise WrongInput(f"batch_wait is {config.batch_wait!r}; it must be at least 0 seconds")
    if config.prefix_cache not in ("none", "hash"):
        raise WrongInput(f"prefix_cache is {config.prefix_cache!r}; it must be one of hash, none")


def longest_sequence(config: EngineConfig, maximum_context: int) -> int:
    """Most tokens, prompt and output together, that one request may have."""
    pool = config.pool_tokens // config.page_size * config.page_size
    return min(maximum_context, pool + 1)


def check_request(
    request: GenerationRequest, config: EngineConfig, maximum_context: int, vocabulary: int | None = None
) -> None:
    """Raise RequestRefused if the request can never be served: it would block the queue for ever."""
    prompt, sampling = len(request.prompt), request.sampling
    if prompt < 1:
        raise RequestRefused("the prompt is empty; at least one token is needed")
    if sampling.maximum_tokens < 1:
        raise RequestRefused(f"maximum_tokens is {sampling.maximum_tokens}; it must be at least 1")
    if vocabulary is not None and not 0 <= min(request.prompt) <= max(request.prompt) < vocabulary:
        raise RequestRefused(f"the prompt has a token outside the vocabulary of {vocabulary} tokens")
    if not (sampling.temperature >= 0 and math.isfinite(sampling.temperature)):
        raise RequestRefused(f"temperature is {sampling.temperature}; it must be a number of at least 0")
    if not 0 < sampling.top_p <= 1:
        raise RequestRefused(f"top_p is {sampling.top_p}; it must be above 0 and at most 1")
    if sampling.top_k < 0:
        raise RequestRefused(f"top_k is {sampling.top_k}; it must be at least 0 (0 is off)")
    if sampling.logprobs is not None and sampling.logprobs < 0:
        raise RequestRefused(f"logprobs is {sampling.logprobs}; it must be at least 0")
    total = prompt + sampling.maximum_tokens
    if total > maximum_context:
        raise RequestTooLong(
            f"the prompt has {prompt} tokens and {sampling.maximum_tokens} more may be generated: {total} in all, "
            f"but the model's context is {maximum_context} tokens"
        )
    held = cached_positions(prompt, sampling.maximum_tokens)
    pool = config.pool_tokens // config.page_size
    if pages_for(held, config.page_size) > pool:
        raise RequestTooLong(
            f"the prompt has {prompt} tokens and {sampling.maximum_tokens} more may be generated: that needs "
            f"{pages_for(held, config.page_size)} KV pages, but the whole pool has {pool}; "
            "shorten the request or raise pool_tokens"
        )
