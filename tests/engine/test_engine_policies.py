"""Policies are pure functions: properties over all states."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rooftune.engine.policies import (
    AdmissionState,
    admission_policy,
    budget_admits,
    budget_claimed,
    fits,
    share_budget,
    watermark,
)
from rooftune.errors import WrongInput


@dataclass(frozen=True)
class Fake:
    remaining: int = 1
    decoding: bool = False
    arrival: float = 0.0
    resumed: bool = False


running = st.lists(
    st.one_of(st.just(Fake(1, True)), st.builds(Fake, st.integers(1, 50), st.just(False))),
    min_size=1,
    max_size=12,
)


@given(running, st.one_of(st.integers(0, 4), st.integers(0, 60)))
@example([Fake(30, False), *[Fake(1, True)] * 11], 0)
def test_chunked_serves_every_decode_and_never_exceeds_the_budget(sequences: list[Fake], spare: int) -> None:
    budget = len(sequences) + spare
    shares = share_budget(sequences, budget, True)
    assert sum(shares) == min(budget, sum(sequence.remaining for sequence in sequences))
    for sequence, share in zip(sequences, shares, strict=True):
        assert 0 <= share <= sequence.remaining
        assert share == 1 or not sequence.decoding
    prompts = [(s.remaining, share) for s, share in zip(sequences, shares, strict=True) if not s.decoding]
    partial = [share < wanted for wanted, share in prompts]
    assert partial == sorted(partial), "a later prompt was served before an earlier one was complete"


@given(running, st.integers(12, 64))
def test_whole_prompts_never_share_a_step_with_decodes(sequences: list[Fake], budget: int) -> None:
    shares = share_budget(sequences, budget, False)
    served = [(s, share) for s, share in zip(sequences, shares, strict=True) if share]
    assert served, "a step does something"
    assert len({sequence.decoding for sequence, _ in served}) == 1
    assert all(share == sequence.remaining for sequence, share in served)
    assert sum(shares) <= budget or len(served) == 1
    assert not served[0][0].decoding or all(sequence.decoding for sequence in sequences)


@given(running, st.integers(1, 50), st.integers(12, 64), st.booleans())
def test_who_is_admitted_by_the_budget_gets_tokens_at_once(
    sequences: list[Fake], remaining: int, budget: int, chunked: bool
) -> None:
    claimed = budget_claimed(sequences, chunked)
    admitted = budget_admits(remaining, claimed, budget, chunked)
    share = share_budget([*sequences, Fake(remaining, False)], budget, chunked)[-1]
    assert admitted == (share > 0)


def state(waiting: list[Fake], running: int, now: float = 0.0, wait: float = 1.0) -> AdmissionState:
    return AdmissionState(waiting, running, 4, now, wait)


def test_static_forms_a_batch_only_when_idle_and_never_waits() -> None:
    static = admission_policy("static")
    assert static(state([Fake()] * 9, 0)).count == 4
    assert static(state([Fake()], 0)).count == 1
    assert static(state([Fake()] * 3, 1)).count == 0
    assert static(state([Fake(resumed=True), Fake()], 1)).count == 1


def test_dynamic_waits_for_a_full_batch_but_not_longer_than_asked() -> None:
    dynamic = admission_policy("dynamic")
    early = dynamic(state([Fake(arrival=5.0), Fake(arrival=5.5)], 0, now=5.6))
    assert (early.count, early.wake) == (0, 6.0)
    assert dynamic(state([Fake(arrival=5.0), Fake(arrival=5.5)], 0, now=6.0)).count == 2
    assert dynamic(state([Fake(arrival=5.0)] * 4, 0, now=5.0)).count == 4
    assert dynamic(state([Fake(arrival=5.0)] * 4, 1, now=9.0)).count == 0
    assert dynamic(state([], 0)).wake is None


def test_continuous_fills_free_slots() -> None:
    continuous = admission_policy("continuous")
    assert continuous(state([Fake()] * 9, 3)).count == 1
    assert continuous(state([Fake()] * 2, 0)).count == 2
    assert continuous(state([Fake()] * 2, 4)).count == 0


def test_the_watermark_counts_only_while_something_runs() -> None:
    assert watermark(100) == 5
    assert fits(100, 100, 100, running=0)
    assert not fits(96, 100, 100, running=1)
    assert fits(95, 100, 100, running=1)
    assert not fits(101, 100, 200, running=0)


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(WrongInput, match="continuous, dynamic, static"):
        admission_policy("random")
