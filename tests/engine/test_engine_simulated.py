"""The simulated engine does what the engine does, and its step-time model finds what was put in."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_runner import SMALL, drain, make, request

from rooftune.engine.contracts import EngineConfig
from rooftune.engine.simulated import StepTimeModel, fit, run_simulation, simulate
from rooftune.engine.stats import StepRecord
from rooftune.engine.work import StepWork
from rooftune.errors import WrongInput

MODEL = StepTimeModel(0.010, 0.0005, 1e-7, 0.001, 1e-6, 0.0008)


def test_policies_and_simulation_need_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import rooftune.engine.policies\n"
        "from rooftune.engine.simulated import StepTimeModel, simulate\n"
        "from rooftune.engine.contracts import EngineConfig\n"
        "assert simulate([(0.0, 5, 2)], EngineConfig(), StepTimeModel(0.1))[0].last_token == 0.2\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("batching", ["static", "dynamic", "continuous"])
@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("cache", ["none", "hash"])
def test_the_simulated_engine_takes_the_same_steps_as_the_engine(batching, chunked, cache) -> None:
    config = replace(SMALL, batching=batching, chunked_prefill=chunked, prefix_cache=cache, pool_tokens=80)
    chance = random.Random(2)
    prompts = [tuple([7] * chance.choice([4, 8, 11]) + [index]) for index in range(12)]
    counts = [chance.choice([1, 4, 20]) for _ in prompts]
    engine, _ = make(config)
    for index, (prompt, count) in enumerate(zip(prompts, counts, strict=True)):
        engine.submit(request(str(index), prompt, count))
    drain(engine)
    arrivals = [(0.0, prompt, count) for prompt, count in zip(prompts, counts, strict=True)]
    simulated = run_simulation(arrivals, config, MODEL, debug=True)
    assert [record.work for record in simulated.steps] == [record.work for record in engine.step_log]
    real = engine.stats()
    for name in (
        "preemptions",
        "lost_tokens",
        "prefix_hits",
        "idle_row_steps",
        "batch_sizes",
        "prompts_split",
    ):
        assert getattr(simulated.stats, name) == getattr(real, name), name
    assert real.preemptions > 0 or batching != "continuous"


def test_times_of_a_lone_request_are_the_sum_of_its_steps() -> None:
    config = EngineConfig(token_budget=16)
    [done] = simulate([(1.0, 20, 3)], config, MODEL)
    first = MODEL.seconds(StepWork(prefill_tokens=16, prefill_context=136))
    second = MODEL.seconds(StepWork(prefill_tokens=4, prefill_context=74, finished_prompts=1))
    decode = MODEL.seconds(StepWork(decode_rows=1, decode_context=21))
    assert done.first_token == pytest.approx(1.0 + first + second)
    assert done.token_times[1] == pytest.approx(1.0 + first + second + decode)
    assert done.last_token == done.token_times[2]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["static", "dynamic", "continuous"]), st.booleans())
def test_every_request_is_served_in_order_and_time_never_goes_back(
    seed: int, batching: str, chunked: bool
) -> None:
    chance = random.Random(seed)
    config = EngineConfig(
        batching=batching, chunked_prefill=chunked, slots=3, token_budget=32, pool_tokens=256, batch_wait=0.02
    )
    arrivals = [(chance.random() * 2, chance.randint(1, 90), chance.randint(1, 40)) for _ in range(12)]
    result = run_simulation(arrivals, config, MODEL, debug=True)
    assert result.stats.pages_used == 0
    for (time, _, count), done in zip(arrivals, result.requests, strict=True):
        assert len(done.token_times) == count
        assert done.admitted is not None and time <= done.admitted < done.token_times[0]
        assert done.token_times == sorted(set(done.token_times))
    ends = [record.start_ns / 1e9 + record.duration for record in result.steps]
    starts = [record.start_ns / 1e9 for record in result.steps]
    assert all(end <= start + 1e-6 for end, start in zip(ends, starts[1:], strict=False))


def test_at_light_load_with_uneven_lengths_continuous_beats_static() -> None:
    chance = random.Random(1)
    arrivals = [(index * 0.2, 64, chance.choice([4, 80])) for index in range(60)]

    def mean_first(batching: str) -> float:
        served = simulate(arrivals, EngineConfig(batching=batching, slots=4), MODEL)
        return sum((one.first_token or 0) - one.arrival for one in served) / len(served)

    assert mean_first("continuous") < mean_first("static") / 3


def test_a_partial_batch_starts_when_its_wait_is_over() -> None:
    config = EngineConfig(batching="dynamic", slots=2, batch_wait=0.5)
    alone, *pair = simulate([(1.0, 1, 1), (3.0, 1, 1), (3.2, 1, 1)], config, StepTimeModel(0.01))
    assert alone.admitted == 1.5
    assert [one.admitted for one in pair] == [3.2, 3.2]


def test_closed_loops_are_made_by_following() -> None:
    def follow(done):
        return [(done.token_times[-1] + 0.5, 4, 2)] if done.index < 3 else []

    result = run_simulation([(0.0, 4, 2)], EngineConfig(), StepTimeModel(0.1), follow=follow)
    assert [round(one.arrival, 6) for one in result.requests] == [0.0, 0.7, 1.4, 2.1]


def test_what_cannot_be_served_is_said_and_not_counted() -> None:
    config = EngineConfig(pool_tokens=64, queue_limit=1, slots=1)
    results = simulate([(0.0, 100, 1), (0.0, 5, 5), (0.0, 5, 5)], config, MODEL)
    assert [one.refused is None for one in results] == [False, True, False]
    assert results[0].first_token is None and results[0].last_token is None


def records(model: StepTimeModel, noise: float, count: int = 300) -> list[StepRecord]:
    chance = random.Random(0)
    made = []
    for _ in range(count):
        prompts, rows = chance.choice([0, 0, chance.randint(1, 256)]), chance.randint(0, 16)
        work = StepWork(
            prompts, prompts * chance.randint(1, 900), rows, rows * chance.randint(1, 900), bool(prompts)
        )
        duration = model.seconds(work) * chance.gauss(1, noise)
        made.append(StepRecord(0, duration, duration, work, 0, rows, 0))
    return made


def test_the_fit_finds_the_model_in_noise_and_ignores_what_the_machine_did_besides() -> None:
    measured = records(MODEL, 0.03)
    for index in (5, 50, 100):
        measured[index] = replace(measured[index], duration=measured[index].duration * 40)
    found = fit(measured)
    for work in (
        StepWork(256, 256 * 300, 8, 8 * 300, 1),
        StepWork(0, 0, 16, 16 * 500, 0),
        StepWork(0, 0, 1, 10),
    ):
        assert found.seconds(work) == pytest.approx(MODEL.seconds(work), rel=0.05)
    assert found.spread is not None
    assert found.spread.dropped >= 3 and abs(found.spread.median) < 0.02
    assert 0.02 < found.spread.p90 < 0.06


def test_short_steps_are_fitted_as_well_as_long_ones() -> None:
    """The long steps do not follow the model (a cost that grows with the square): the short ones must still fit."""
    measured = [
        replace(record, duration=record.duration * (1 + record.work.prefill_tokens / 1000))
        for record in records(MODEL, 0.0)
    ]
    found = fit(measured)
    for rows in (1, 4, 16):
        work = StepWork(decode_rows=rows, decode_context=rows * 300)
        assert found.seconds(work) == pytest.approx(MODEL.seconds(work), rel=0.03)


def test_the_fit_is_not_drawn_down_by_steps_that_take_long_now_and_then() -> None:
    """Noise of a busy machine is skewed; the total time of many steps must still come out right."""
    chance = random.Random(3)
    measured = [
        replace(record, duration=record.duration * chance.lognormvariate(-0.125, 0.5))
        for record in records(MODEL, 0.0, 2000)
    ]
    found = fit(measured)
    predicted = sum(found.seconds(record.work) for record in measured)
    assert predicted == pytest.approx(sum(record.duration for record in measured), rel=0.03)


def test_coefficients_are_never_negative_and_too_few_steps_are_refused() -> None:
    falling = [
        replace(record, duration=0.02 - record.work.decode_rows * 1e-4) for record in records(MODEL, 0.0)
    ]
    found = fit(falling)
    assert min(found.base, found.per_decode_row, found.per_context_token, found.per_prefill_token) >= 0
    with pytest.raises(WrongInput, match="at least 20"):
        fit(falling[:5])
