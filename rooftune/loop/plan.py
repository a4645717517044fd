"""What the goals need in requests and rounds, what the budget affords, and what that leaves undecided: said before the start.

One run is one arm under one schedule. A round runs every arm once. Percentile goals are judged on the requests of all
confirming rounds of an arm together, so a run needs only its share of them.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from rooftune.compare.planning import minimum_detectable_effect, requests_needed
from rooftune.spec import Spec

CONFIRM_ROUNDS = 6
"""Fewest rounds that may confirm (design §6)."""
CONFIRM_STARTS = 3
SCREEN_ROUNDS = 2
LARGEST_STACK = 3
_FEWEST_REQUESTS = 10
_MOST_REQUESTS = 400
_ASSUMED_SPREAD = 0.10


@dataclass(frozen=True, slots=True)
class Plan:
    """Seconds throughout. ``affordable`` False carries ``shortfall`` in words."""

    rate: float | None
    requests_for_goals: int
    requests_per_screen_run: int
    requests_per_confirm_run: int
    screen_rounds: int
    confirm_rounds: int
    confirm_starts: int
    screen_run_seconds: float
    confirm_run_seconds: float
    start_seconds: float
    budget_seconds: float
    minimum_detectable_effect: float
    """Smallest ratio change that the confirming rounds find in 80 % of cases, at the assumed spread between rounds."""
    assumed_spread: float
    affordable: bool
    shortfall: str | None

    def confirm_seconds(self, stack: int, *, defaults: bool = True) -> float:
        """Time of all confirming rounds for a stack of so many techniques, starts included."""
        arms = 2 + (stack if stack > 1 else 0) + defaults
        return arms * (
            self.confirm_rounds * self.confirm_run_seconds + self.confirm_starts * self.start_seconds
        )

    def statements(self, deciding: str) -> list[str]:
        """The plan in words, before it is spent."""
        lines = [
            f"Plan: {deciding} decides. Screening: {self.screen_rounds} rounds of {self.requests_per_screen_run} requests "
            f"({self.screen_run_seconds:.0f} s a run). Confirming: {self.confirm_rounds} rounds over {self.confirm_starts} starts, "
            f"{self.requests_per_confirm_run} requests a run ({self.confirm_run_seconds:.0f} s); the goals need "
            f"{self.requests_for_goals} requests an arm in all.",
            f"With {self.assumed_spread:.0%} spread between rounds (assumed), {self.confirm_rounds} rounds find a change of "
            f"{self.minimum_detectable_effect:.0%} or more in 80 of 100 cases.",
        ]
        return lines if self.shortfall is None else [*lines, f"Beyond the budget: {self.shortfall}."]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def requests_for_goals(spec: Spec) -> int:
    """Requests of one arm, over all confirming rounds, that the goals' percentiles need."""
    attainment = next((g.target for g in spec.goals.bounds if g.metric == "slo_attainment"), None)
    return requests_needed((goal.metric for goal in spec.goals.bounds), attainment)[0]


def make_plan(
    spec: Spec,
    *,
    rate: float,
    capacity: float,
    request_seconds: float,
    start_seconds: float,
    elapsed: float,
    candidates: int,
    closing_seconds: float,
) -> Plan:
    """Divide what is left of the budget between screening ``candidates`` and confirming.

    rate: requests per second offered; capacity: what the baseline was seen to carry; request_seconds: how long one request
    takes without a queue (a run ends that much after its last arrival is served); start_seconds: one server start; closing_seconds: quality, final diagnosis, report.
    """
    needed = requests_for_goals(spec)
    fewest = max(_FEWEST_REQUESTS, math.ceil(needed / CONFIRM_ROUNDS))
    left = spec.budget.time - elapsed - closing_seconds
    # Baseline, final and defaults; and with two or more candidates room for a stack of two, each left out once.
    arms = 3 + (2 if candidates > 1 else 0)
    confirm_runs = CONFIRM_ROUNDS * arms
    screen_runs = SCREEN_ROUNDS * (1 + candidates)
    starts = CONFIRM_STARTS * arms + 1 + candidates
    left_for_runs = left - starts * start_seconds

    def run_seconds(requests: int) -> float:
        return requests / min(rate, capacity) + request_seconds

    def total_seconds(confirm: int, screen: int) -> float:
        return confirm_runs * run_seconds(confirm) + screen_runs * run_seconds(screen)

    if spec.workload.requests == "auto":
        # The longest confirming runs that leave every candidate its screening, half as long.
        confirm_requests = _MOST_REQUESTS
        while confirm_requests > fewest:
            if total_seconds(confirm_requests, max(_FEWEST_REQUESTS, confirm_requests // 2)) <= left_for_runs:
                break
            confirm_requests -= 1
        screen_requests = max(_FEWEST_REQUESTS, confirm_requests // 2)
    else:
        confirm_requests = screen_requests = spec.workload.requests
    total = total_seconds(confirm_requests, screen_requests)
    pooled = confirm_requests * CONFIRM_ROUNDS
    shortfall = None
    if pooled < needed:
        shortfall = f"the goals' percentiles need {needed} requests an arm and the runs give {pooled}: raise workload.requests"
    elif total > left_for_runs * 1.05:
        shortfall = (
            f"the goals need about {(total + starts * start_seconds + elapsed + closing_seconds) / 60:.0f} min and the budget is "
            f"{spec.budget.time / 60:.0f} min: techniques that do not fit are left untried"
        )
    return Plan(
        rate=rate,
        requests_for_goals=needed,
        requests_per_screen_run=screen_requests,
        requests_per_confirm_run=confirm_requests,
        screen_rounds=SCREEN_ROUNDS,
        confirm_rounds=CONFIRM_ROUNDS,
        confirm_starts=CONFIRM_STARTS,
        screen_run_seconds=run_seconds(screen_requests),
        confirm_run_seconds=run_seconds(confirm_requests),
        start_seconds=start_seconds,
        budget_seconds=spec.budget.time,
        minimum_detectable_effect=math.expm1(minimum_detectable_effect(CONFIRM_ROUNDS, _ASSUMED_SPREAD)),
        assumed_spread=_ASSUMED_SPREAD,
        affordable=shortfall is None,
        shortfall=shortfall,
    )
