"""The pilot that settles ``rate: auto``."""

from __future__ import annotations

import pytest

from rooftune.errors import InvalidRun
from rooftune.measure.pilot import carried_rate, pilot_schedule
from rooftune.spec import Arrivals, Workload
from rooftune.workload.schedule import build_schedule
from tests.loop.fake_trials import made_run

WORKLOAD = Workload(arrivals=Arrivals(process="poisson", rate="auto", think=0.0))


def test_the_pilot_is_a_closed_loop_whose_prompts_no_run_repeats() -> None:
    pilot = pilot_schedule(WORKLOAD, 4, seed=1)
    assert pilot.closed_loop
    assert pilot.users == 4
    run = build_schedule(WORKLOAD, requests=40, rate=2.0, seed=1)
    assert not {e.text() for e in pilot.entries} & {e.text() for e in run.entries}


def test_the_carried_rate_is_what_was_answered() -> None:
    assert carried_rate(made_run({"requests_per_second": 2.5}, {})) == 2.5


@pytest.mark.parametrize("values", [{}, {"requests_per_second": 0.0}])
def test_a_server_that_answers_nothing_settles_no_rate(values: dict[str, float]) -> None:
    with pytest.raises(InvalidRun, match="state a rate"):
        carried_rate(made_run(values, {}))
