"""Sampling: the law of what is drawn, containment, streams of their own, raw log-probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from rooftune.engine.contracts import SamplingParameters
from rooftune.engine.sampling import allowed, draw, request_generator, sample

VOCABULARY = 12


def reference_probabilities(logits: np.ndarray, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """By the definitions, token by token."""
    scaled = logits.astype(np.float64) / temperature
    probabilities = np.exp(scaled - scaled.max())
    order = np.argsort(-probabilities, kind="stable")
    if top_k:
        probabilities[order[top_k:]] = 0
    probabilities /= probabilities.sum()
    if top_p < 1:
        mass, kept = 0.0, set()
        for token in order:
            if mass >= top_p:
                break
            kept.add(token)
            mass += probabilities[token]
        probabilities[[token for token in range(len(logits)) if token not in kept]] = 0
    return probabilities / probabilities.sum()


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.5, 0, 1.0), (1.3, 4, 1.0), (1.0, 0, 0.8), (1.5, 8, 0.7)],
)
def test_draws_follow_the_distribution(temperature: float, top_k: int, top_p: float) -> None:
    logits = np.random.default_rng(3).normal(size=VOCABULARY).astype(np.float32)
    wanted = reference_probabilities(logits, temperature, top_k, top_p)
    sampling = SamplingParameters(1, temperature, top_k, top_p)
    generator = torch.Generator().manual_seed(11)
    drawn = np.bincount([draw(logits, sampling, generator) for _ in range(4000)], minlength=VOCABULARY)
    assert (drawn[wanted == 0] == 0).all()
    possible = wanted > 0
    assert chisquare(drawn[possible], wanted[possible] * drawn.sum()).pvalue > 1e-3
    # The same draws must not pass for another law.
    other = reference_probabilities(logits, temperature * 1.3, top_k, top_p)[possible]
    assert chisquare(drawn[possible], other / other.sum() * drawn.sum()).pvalue < 1e-3


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([5, 300, 5000]),
    st.floats(0.05, 3),
    st.integers(0, 12),
    st.floats(0.01, 1),
)
def test_what_may_be_drawn_is_what_the_definition_allows(
    seed: int, vocabulary: int, temperature: float, top_k: int, top_p: float
) -> None:
    logits = np.random.default_rng(seed).normal(size=vocabulary).astype(np.float32)
    wanted = reference_probabilities(logits, temperature, min(top_k, vocabulary), top_p)
    tokens, weights = allowed(logits, SamplingParameters(1, temperature, top_k, top_p))
    law = np.zeros(vocabulary)
    law[slice(None) if tokens is None else tokens] = weights / weights.sum(dtype=np.float64)
    # A token exactly at the border of top_p may go either way by rounding: then its mass is what differs.
    if set(np.flatnonzero(law)) == set(np.flatnonzero(wanted)):
        np.testing.assert_allclose(law, wanted, atol=1e-6)
    else:
        assert abs(int((law > 0).sum()) - int((wanted > 0).sum())) == 1


def test_a_request_draws_the_same_alone_and_among_neighbours() -> None:
    rows = torch.from_numpy(np.random.default_rng(5).normal(size=(6, 50)).astype(np.float32))
    sampling = SamplingParameters(1, 0.9, seed=42)

    def stream(others: int) -> list[int]:
        mine = request_generator(sampling, "mine", 0)
        noise = [request_generator(SamplingParameters(1, 1.0), f"other{i}", 0) for i in range(others)]
        parameters = [SamplingParameters(1, 1.0)] * others + [sampling]
        return [
            sample(rows[step - others : step + 1], parameters, [*noise, mine])[-1].token
            for step in range(3, 6)
        ]

    assert stream(0) == stream(1) == stream(3)


def test_streams_differ_by_request_and_repeat_by_seed() -> None:
    def first(sampling: SamplingParameters, id: str, seed: int = 0) -> float:
        generator = request_generator(sampling, id, seed)
        return float(torch.rand((), generator=generator, dtype=torch.float64))

    free, fixed = SamplingParameters(1, 1.0), SamplingParameters(1, 1.0, seed=-5)
    assert first(free, "a") == first(free, "a") != first(free, "b") != first(free, "b", 1)
    assert first(fixed, "a") == first(fixed, "b", 9)
    assert request_generator(SamplingParameters(1), "a", 0) is None


def test_logprobs_are_of_the_raw_distribution() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0, -1.0]])
    wanted = torch.log_softmax(logits.double(), -1)[0]
    sampling = SamplingParameters(1, 0.01, top_k=1, seed=1, logprobs=2)
    [drawn] = sample(logits, [sampling], [request_generator(sampling, "a", 0)])
    assert drawn.logprob is not None
    assert drawn.token == drawn.logprob.token == 1
    assert drawn.logprob.logprob == pytest.approx(float(wanted[1]))
    assert [token for token, _ in drawn.logprob.top] == [1, 2]
    assert [value for _, value in drawn.logprob.top] == pytest.approx([float(wanted[1]), float(wanted[2])])
    [none_asked] = sample(logits, [SamplingParameters(1)], [None])
    assert none_asked.logprob is None


def test_a_row_that_is_not_finite_is_an_error_of_that_row_only() -> None:
    logits = torch.tensor([[0.0, 1.0], [float("nan"), 1.0], [1.0, float("inf")]])
    draws = sample(logits, [SamplingParameters(1)] * 3, [None] * 3)
    assert draws[0].token == 1 and draws[0].error is None
    assert draws[1].error is not None and draws[2].error is not None


def test_masked_tokens_are_never_drawn() -> None:
    row = np.array([-np.inf, 0.0, -np.inf, 0.0], dtype=np.float32)
    generator = torch.Generator().manual_seed(0)
    drawn = {draw(row, SamplingParameters(1, 2.0), generator) for _ in range(200)}
    assert drawn == {1, 3}
