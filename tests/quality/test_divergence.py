from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooftune.quality.decide import judge_quality, within
from rooftune.quality.divergence import cluster_interval, score, share_interval, summarize
from rooftune.quality.evaluate import compare_forward
from rooftune.quality.over_http import Generated, compare_generated
from rooftune.quality.perplexity import perplexity
from rooftune.quality.text import Document, documents, text_hash
from rooftune.spec.goal import Goal


def slow_kl(base: np.ndarray, changed: np.ndarray) -> float:
    """The definition, one value at a time."""
    total_b, total_c = sum(map(math.exp, base)), sum(map(math.exp, changed))
    return sum(
        math.exp(b) / total_b * (math.log(math.exp(b) / total_b) - math.log(math.exp(c) / total_c))
        for b, c in zip(base, changed, strict=True)
    )


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(2, 9))
def test_scores_equal_the_definition(seed: int, vocabulary: int, length: int) -> None:
    random = np.random.default_rng(seed)
    base = random.normal(0, 3, (length, vocabulary)).astype(np.float32)
    changed = (base + random.normal(0, 1, base.shape)).astype(np.float32)
    tokens = random.integers(0, vocabulary, length).tolist()
    scores = score("d", base, changed, tokens)
    for row in range(length):
        assert scores.kl[row] == pytest.approx(
            slow_kl(base[row].astype(float), changed[row].astype(float)), abs=1e-5
        )
        assert scores.agree[row] == (base[row].argmax() == changed[row].argmax())
    expected = -math.log(math.exp(base[0][tokens[1]]) / sum(map(math.exp, base[0].astype(float))))
    assert scores.nll_base[0] == pytest.approx(expected, abs=1e-5)
    assert len(scores.nll_base) == length - 1


def test_a_model_against_itself_diverges_by_nothing() -> None:
    logits = np.random.default_rng(1).normal(0, 5, (130, 500)).astype(np.float32)
    scores = score("d", logits, logits, list(range(130)))
    assert scores.kl.max() < 1e-6 and scores.agree.all()
    shifted = score("d", logits, logits + np.float32(7.0), list(range(130)))
    assert shifted.kl.max() < 1e-5


def test_logits_that_are_no_numbers_are_refused() -> None:
    logits = np.zeros((3, 4), dtype=np.float32)
    with pytest.raises(ValueError, match="not finite"):
        score("d", logits, np.full((3, 4), np.nan, dtype=np.float32), [0, 1, 2])
    with pytest.raises(ValueError, match="must score the same"):
        score("d", logits, logits[:2], [0, 1, 2])


def test_the_interval_by_document_covers() -> None:
    """Positions of a document share a level; treating them as independent would cover far less."""
    random = np.random.default_rng(5)
    covered, trials = 0, 1500
    for _ in range(trials):
        sizes = random.integers(80, 250, 12).astype(float)
        levels = random.gamma(4.0, 0.25, 12)
        sums = np.array(
            [random.gamma(2.0, level / 2.0, int(n)).sum() for level, n in zip(levels, sizes, strict=True)]
        )
        interval = cluster_interval(sums, sizes)
        covered += interval.low <= 1.0 <= interval.high
    assert covered / trials >= 0.91


def test_full_agreement_is_not_certainty() -> None:
    interval = share_interval(np.array([50.0, 50.0]), np.array([50.0, 50.0]))
    assert interval.value == 1.0 and interval.low == pytest.approx(0.025 ** (1 / 100), abs=1e-3)
    assert cluster_interval(np.array([3.0]), np.array([10.0])).high == math.inf


def test_perplexity_and_its_paired_ratio() -> None:
    random = np.random.default_rng(2)
    scores = []
    for name in "abcd":
        logits = random.normal(0, 1, (60, 30)).astype(np.float32)
        noisy = (logits + random.normal(0, 0.02, logits.shape)).astype(np.float32)
        scores.append(score(name, logits, noisy, random.integers(0, 30, 60).tolist()))
    found = perplexity(scores, 1000)
    assert found.ratio.low < found.changed / found.base < found.ratio.high
    assert found.ratio.high - found.ratio.low < 0.05
    assert found.tokens == 4 * 59


GOALS = (Goal("kl_mean", "<=", 0.02, "plain"), Goal("top1_agreement", ">=", 0.97, "share"))


class Table:
    """A model over 40 tokens: the next token's logits are a row of a matrix."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix.astype(np.float32)

    def logits(self, tokens: object) -> np.ndarray:
        return self.matrix[np.asarray(tokens)]


def texts() -> list[tuple[Document, list[int]]]:
    random = np.random.default_rng(9)
    return [(Document(str(i), "prose", ""), random.integers(0, 40, 200).tolist()) for i in range(8)]


def test_damage_is_found_and_a_copy_passes() -> None:
    random = np.random.default_rng(3)
    matrix = random.normal(0, 3, (40, 40))
    damaged = matrix.copy()
    damaged[random.random(matrix.shape) < 0.05] = 0.0
    same, broken = compare_forward(Table(matrix), [(Table(matrix), 8), (Table(damaged), 8)], texts())
    assert judge_quality(summarize(same), GOALS).passed is True
    outcome = judge_quality(summarize(broken), GOALS)
    assert outcome.passed is False and "outside" in outcome.statement


def test_too_little_text_is_undecided_not_passed() -> None:
    random = np.random.default_rng(3)
    matrix = random.normal(0, 3, (40, 40))
    (few,) = compare_forward(Table(matrix), [(Table(matrix), 2)], [(d, t[:5]) for d, t in texts()[:2]])
    outcome = judge_quality(summarize(few), GOALS)
    assert outcome.passed is None and outcome.reason is not None and "more text" in outcome.reason


def test_within_needs_the_whole_interval() -> None:
    from rooftune.store.result import Interval

    assert within(Interval(0.01, 0.005, 0.019), GOALS[0]) is True
    assert within(Interval(0.02, 0.015, 0.025), GOALS[0]) is None
    assert within(Interval(0.05, 0.04, 0.06), GOALS[0]) is False


def test_the_shipped_text_is_varied_and_stable() -> None:
    assert len(documents()) >= 12 and len({d.kind for d in documents()}) >= 6
    assert sum(len(d.text.split()) for d in documents()) > 1500
    assert text_hash() == text_hash() and len({d.name for d in documents()}) == len(documents())


def test_generated_answers_are_compared_while_contexts_are_equal() -> None:
    base = Generated(("a", "b", "c"), ({"a": -0.1, "x": -3.0}, {"b": -0.2}, {"c": -0.5, "d": -0.6}))
    other = Generated(("a", "b", "d"), ({"a": -0.1, "x": -3.0}, {"b": -0.2}, {"d": -0.5, "c": -0.6}))
    found = compare_generated([base, base], [base, other])
    assert found.identical == 1 and found.positions == 6
    assert found.agreement.value == pytest.approx(5 / 6)
    assert found.margins == (pytest.approx(0.1),)
    assert found.kl_lower_bound is not None and found.kl_lower_bound.value > 0
    same = compare_generated([base], [base])
    assert same.kl_lower_bound is not None and same.kl_lower_bound.value == 0.0


@given(st.integers(0, 10_000))
def test_the_bucketed_kl_is_a_lower_bound(seed: int) -> None:
    from rooftune.quality.over_http import _kl

    random = np.random.default_rng(seed)
    base, changed = random.dirichlet(np.ones(12)), random.dirichlet(np.ones(12))
    full = float(np.sum(base * np.log(base / changed)))
    top = {str(i): math.log(base[i]) for i in np.argsort(-base)[:5]}
    other = {str(i): math.log(changed[i]) for i in np.argsort(-changed)[:5]}
    assert _kl(top, other) <= full + 1e-9
