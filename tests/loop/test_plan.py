"""The plan: what the goals need comes first, the budget is filled and not overdrawn, and what does not fit is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooftune.loop.plan import CONFIRM_ROUNDS, SCREEN_ROUNDS, Plan, make_plan, requests_for_goals
from rooftune.spec import Spec, parse_spec


def spec(goal: str = "ttft_p95", budget: str = "10min", requests: object = "auto") -> Spec:
    return parse_spec(
        {
            "model": "m",
            "goals": {goal: "<= 1s"},
            "workload": {"arrivals": {"process": "poisson", "rate": "4/s"}, "requests": requests},
            "budget": {"time": budget},
        }
    )


def planned(asked: Spec, candidates: int = 4, rate: float = 4.0, elapsed: float = 40.0) -> Plan:
    return make_plan(
        asked, rate=rate, capacity=rate, request_seconds=1.0, start_seconds=2.0, elapsed=elapsed, candidates=candidates,
        closing_seconds=40.0,
    )  # fmt: skip


@pytest.mark.parametrize(("goal", "needed"), [("ttft_p95", 59), ("ttft_p99", 299), ("ttft_p50", 20)])
def test_a_percentile_needs_its_sample(goal: str, needed: int) -> None:
    assert requests_for_goals(spec(goal)) == needed
    assert planned(spec(goal)).requests_per_confirm_run * CONFIRM_ROUNDS >= needed


@given(
    budget=st.integers(min_value=2, max_value=120),
    rate=st.floats(min_value=0.2, max_value=200),
    candidates=st.integers(min_value=1, max_value=8),
)
def test_an_affordable_plan_keeps_the_budget_and_any_other_says_so(
    budget: int, rate: float, candidates: int
) -> None:
    plan = planned(spec(budget=f"{budget}min"), candidates, rate)
    screening = (1 + candidates) * (SCREEN_ROUNDS * plan.screen_run_seconds + plan.start_seconds)
    whole = 40.0 + 40.0 + screening + plan.confirm_seconds(stack=2 if candidates > 1 else 1)
    if plan.affordable:
        assert whole <= 1.06 * plan.budget_seconds + 2 * plan.start_seconds
    else:
        assert plan.shortfall


def test_more_time_gives_longer_runs() -> None:
    assert (
        planned(spec(budget="60min")).requests_per_confirm_run
        > planned(spec(budget="8min")).requests_per_confirm_run
    )


def test_a_stated_number_of_requests_is_kept_and_too_few_are_named() -> None:
    plan = planned(spec("ttft_p99", requests=20))
    assert plan.requests_per_confirm_run == plan.requests_per_screen_run == 20
    assert not plan.affordable
    assert "299" in str(plan.shortfall)


def test_the_words_name_what_cannot_be_afforded() -> None:
    plan = planned(spec("ttft_p99", budget="2min"))
    assert any(line.startswith("Beyond the budget") for line in plan.statements("ttft_mean"))
