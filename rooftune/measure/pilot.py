"""Settling ``rate: auto``: a closed loop with all slots busy shows what a server carries, and the load is a multiple of it."""

from __future__ import annotations

from rooftune.errors import InvalidRun
from rooftune.spec import Workload
from rooftune.store.run import Run
from rooftune.workload.schedule import Schedule, build_schedule

_REQUESTS_PER_USER = 3


def pilot_schedule(workload: Workload, users: int, seed: int) -> Schedule:
    """A closed loop of ``users`` without think time, with prompts of the workload's kind that no later run sends."""
    arrivals = workload.arrivals.model_copy(
        update={"process": "concurrency", "users": users, "rate": None, "think": 0.0}
    )
    busy = workload.model_copy(update={"arrivals": arrivals})
    return build_schedule(busy, requests=_REQUESTS_PER_USER * users, rate=None, seed=seed, salt="pilot")


def carried_rate(run: Run) -> float:
    """Requests per second that the pilot's server answered. Raises InvalidRun where it answered none."""
    reached = run.metric("requests_per_second")
    if reached is None or not reached.value:
        raise InvalidRun(
            "the server answered nothing while the rate was being found; state a rate such as 4/s"
        )
    return reached.value
