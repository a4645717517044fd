"""The engine around the scheduler: threads, aborts in every state, faults, refusals, stops, statistics, ledger."""

from __future__ import annotations

import random
import threading
import time

import pytest
from toy_runner import SMALL, Collector, ToyRunner, drain, expected_greedy, make, request

from rooftune.engine.contracts import EngineConfig
from rooftune.engine.engine import Engine
from rooftune.engine.limits import EngineStopped, QueueFull, RequestRefused, RequestTooLong
from rooftune.engine.scheduler import Scheduler
from rooftune.engine.work import Step
from rooftune.errors import WrongInput


def wait_until(condition, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "this took too long"
        time.sleep(0.002)


def finished(collector: Collector, ids: list[str]) -> bool:
    over = {output.id for call in list(collector.calls) for output in call if output.finish is not None}
    return set(ids) <= over


def test_requests_from_many_threads_are_served_and_the_pool_is_empty_after() -> None:
    engine, collector = make(SMALL, ToyRunner(delay=0.0005))
    engine.start()
    ids = [f"t{thread}-{index}" for thread in range(4) for index in range(5)]

    def client(thread: int) -> None:
        for index in range(5):
            engine.submit(request(f"t{thread}-{index}", [thread, index, 3], 6))

    threads = [threading.Thread(target=client, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: finished(collector, ids))
    wait_until(lambda: engine.stats().running == 0)
    for id in ids:
        thread, index = map(int, id[1:].split("-"))
        assert collector.tokens(id) == expected_greedy([thread, index, 3], 6)
    assert engine.stats().pages_used == 0
    assert engine.healthy(5.0) == (True, "idle")
    engine.stop()
    stats = engine.stats()
    assert not stats.alive and stats.error is None and stats.finished == {"length": 20}
    with pytest.raises(EngineStopped):
        engine.submit(request("late", [1], 1))


@pytest.mark.parametrize("steps", [0, 1, 3, 6])
def test_abort_in_every_state_gives_everything_back(steps: int) -> None:
    """With one slot and a budget of 16: after 0 steps not yet seen, 1 half read, 3 decoding; 'next' is still queued."""
    engine, collector = make(slots=1)
    engine.submit(request("one", range(40), 20))
    engine.submit(request("next", [1, 2], 3))
    for _ in range(steps):
        engine.step()
    engine.abort("one")
    engine.step()
    assert collector.last("one").finish == "abort"
    assert set(collector.last("one").timings) == (
        {"queue"} if steps == 0 else {"queue", "prefill"} if steps < 3 else {"queue", "prefill", "decode"}
    )
    drain(engine)
    assert collector.tokens("next") == expected_greedy([1, 2], 3)
    assert engine.scheduler.pool.used == 0
    calls = len(collector.calls)
    engine.abort("one")
    engine.abort("never seen")
    engine.step()
    assert len(collector.calls) == calls


def test_abort_of_a_queued_and_of_a_preempted_request() -> None:
    engine, collector = make(slots=5, pool_tokens=48)
    for index in range(5):
        engine.submit(request(f"r{index}", [index, 5, 6, 7, 8], 30))
    while not engine.scheduler.counters.preemptions:
        engine.step()
    [preempted, *_] = [sequence.id for sequence in engine.scheduler.waiting if sequence.resumed]
    engine.abort(preempted)
    drain(engine)
    assert collector.last(preempted).finish == "abort"
    assert engine.scheduler.pool.used == 0


def test_a_failing_forward_ends_its_requests_and_nothing_else() -> None:
    runner = ToyRunner()
    engine, collector = make(SMALL, runner, slots=2)
    for index in range(3):
        engine.submit(request(f"r{index}", [index, 2, 3], 5))
    runner.fail_at = {3}
    drain(engine)
    assert collector.last("r0").finish == collector.last("r1").finish == "error"
    assert "told to fail" in (collector.last("r0").error or "")
    assert collector.tokens("r2") == expected_greedy([2, 2, 3], 5)
    stats = engine.stats()
    assert stats.alive and stats.failed_steps == 1 and stats.pages_used == 0
    assert len(engine.step_log) == runner.calls - 1


def test_logits_that_are_no_numbers_end_one_request() -> None:
    runner = ToyRunner()
    runner.nan_after = 96
    engine, collector = make(SMALL, runner)
    engine.submit(request("bad", [96, 1], 5))
    engine.submit(request("good", [2, 1], 1))
    drain(engine)
    assert collector.last("bad").finish == "error" and "finite" in (collector.last("bad").error or "")
    assert collector.tokens("good") == expected_greedy([2, 1], 1)
    assert engine.scheduler.pool.used == 0


def test_the_death_of_the_engine_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, collector = make()

    def broken(now: float) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(engine.scheduler, "plan", broken)
    engine.start()
    engine.submit(request("a", [1], 5))
    wait_until(lambda: finished(collector, ["a"]))
    wait_until(lambda: not engine.stats().alive)
    assert collector.last("a").finish == "error"
    assert "a bug" in (engine.stats().error or "")
    assert engine.healthy(5.0)[0] is False
    with pytest.raises(EngineStopped, match="a bug"):
        engine.submit(request("b", [1], 5))
    engine.stop()


def test_a_listener_that_fails_does_not_stop_the_engine() -> None:
    calls = []

    def listener(outputs) -> None:
        calls.append(outputs)
        raise RuntimeError("the server is gone")

    engine = Engine(ToyRunner(), SMALL, listener, debug=True)
    engine.submit(request("a", [1], 3))
    drain(engine)
    assert len(calls) == engine.stats().listener_errors == 3


def test_stop_aborts_what_is_left() -> None:
    engine, collector = make(SMALL, ToyRunner(delay=0.01), slots=1)
    engine.start()
    engine.submit(request("running", [1], 400))
    engine.submit(request("waiting", [1], 400))
    wait_until(lambda: bool(collector.outputs("running")))
    engine.stop()
    assert collector.last("running").finish == collector.last("waiting").finish == "abort"
    assert engine.stats().pages_used == 0


def test_what_can_never_be_served_is_refused_on_arrival() -> None:
    engine, _ = make(pool_tokens=64, queue_limit=2)
    with pytest.raises(RequestTooLong, match="context is 512"):
        engine.submit(request("a", [1] * 500, 13))
    with pytest.raises(RequestTooLong, match="raise pool_tokens"):
        engine.submit(request("a", [1] * 60, 6))
    engine.submit(request("fits", [1] * 60, 5))
    for sampling in ({"temperature": -1}, {"top_p": 0}, {"top_k": -1}, {"temperature": float("nan")}):
        with pytest.raises(RequestRefused):
            engine.submit(request("a", [1], 1, **sampling))
    for prompt, count in (([], 1), ([1], 0), ([97], 1), ([-1], 1)):
        with pytest.raises(ValueError):
            engine.submit(request("a", prompt, count))
    with pytest.raises(RequestRefused, match="already"):
        engine.submit(request("fits", [1], 1))
    engine.submit(request("b", [1], 1))
    with pytest.raises(QueueFull, match="queue_limit 2"):
        engine.submit(request("c", [1], 1))
    drain(engine)
    engine.submit(request("c", [1], 1))


@pytest.mark.parametrize(
    "changes", [{"slots": 0}, {"slots": 17}, {"pool_tokens": 3}, {"batching": "no"}, {"batch_wait": -1.0}]
)
def test_a_configuration_that_cannot_work_is_refused(changes) -> None:
    with pytest.raises(WrongInput):
        make(**changes)


def test_stop_tokens_end_a_request_unless_the_end_is_ignored() -> None:
    wanted = expected_greedy([1, 2], 10)
    stop = frozenset({wanted[4]})
    first = wanted.index(wanted[4])
    engine, collector = make()
    engine.submit(request("stops", [1, 2], 10, stop_tokens=stop))
    engine.submit(request("goes on", [1, 2], 10, stop_tokens=stop, ignore_end=True))
    drain(engine)
    assert collector.tokens("stops") == wanted[: first + 1]
    assert collector.last("stops").finish == "stop"
    assert collector.tokens("goes on") == wanted
    assert collector.last("goes on").finish == "length"


def test_priority_goes_before_arrival() -> None:
    engine, collector = make(slots=1)
    engine.submit(request("late", [1], 1, priority=1))
    engine.submit(request("early", [2], 1, priority=0))
    drain(engine)
    assert [output.id for call in collector.calls for output in call] == ["early", "late"]


def test_idle_row_steps_explain_what_static_batching_loses() -> None:
    """Rows of 2, 5 and 9 tokens in one batch: 9 steps, of which rows 1 and 2 idle for 7 and 4."""

    def run(batching: str) -> Engine:
        engine, _ = make(batching=batching, slots=3)
        for index, count in enumerate((2, 5, 9, 3)):
            engine.submit(request(f"r{index}", [index], count))
        drain(engine)
        return engine

    static, continuous = run("static").stats(), run("continuous").stats()
    assert static.idle_row_steps == 7 + 4
    assert static.batch_sizes == {3: 1, 1: 1}
    assert (static.steps, static.row_steps) == (9 + 3, 2 + 5 + 9 + 3)
    assert continuous.idle_row_steps == 0
    assert (continuous.steps, continuous.row_steps) == (9, 2 + 5 + 9 + 3)
    assert continuous.joins_while_running == 2 + 1


def test_a_partial_batch_waits_as_long_as_asked() -> None:
    engine, collector = make(batching="dynamic", batch_wait=0.05)
    engine.start()
    engine.submit(request("a", [1], 2))
    wait_until(lambda: finished(collector, ["a"]))
    engine.stop()
    assert collector.last("a").timings["queue"] >= 0.05
    assert engine.stats().batch_sizes == {1: 1}


def test_timings_add_up_and_the_step_log_tells_every_step() -> None:
    runner = ToyRunner()
    engine, collector = make(SMALL, runner)
    engine.submit(request("a", range(20), 5))
    drain(engine)
    timings = collector.last("a").timings
    assert all(value >= 0 for value in timings.values()) and set(timings) == {"queue", "prefill", "decode"}
    log = list(engine.step_log)
    assert [record.work.prefill_tokens for record in log] == [16, 4, 0, 0, 0, 0]
    assert [record.work.decode_rows for record in log] == [0, 0, 1, 1, 1, 1]
    assert [record.work.decode_context for record in log][2:] == [21, 22, 23, 24]
    assert [record.work.prefill_context for record in log][:2] == [sum(range(1, 17)), sum(range(17, 21))]
    assert engine.steps_since(log[3].start_ns) == log[3:]
    assert all(record.duration >= record.forward > 0 for record in log)
    assert set(log[0].flat()) >= {"start_ns", "duration", "context_sum", "waiting", "used_pages"}


def test_timings_part_the_life_of_a_request() -> None:
    scheduler = Scheduler(SMALL, 512)
    sequence = scheduler.add(request("a", range(20), 2), 1.0)
    assert sequence.timings(1.5) == {"queue": 0.5}
    step = scheduler.plan(3.0)
    assert isinstance(step, Step)
    scheduler.commit(step, [], 4.0)
    assert sequence.timings(4.5) == {"queue": 2.0, "prefill": 1.5}
    step = scheduler.plan(5.0)
    assert isinstance(step, Step)
    scheduler.commit(step, [7], 8.0)
    assert sequence.timings(8.5) == {"queue": 2.0, "prefill": 5.0, "decode": 0.5}


def entries(engine: Engine) -> dict[str, dict]:
    return {entry["name"]: entry for entry in engine.ledger()}


def test_the_ledger_believes_counters_only() -> None:
    engine, _ = make()
    assert all(entry["active"] is not True for name, entry in entries(engine).items() if name != "threads")
    engine.submit(request("a", [1, 2, 3], 3))
    drain(engine)
    lonely = entries(engine)
    assert lonely["batching"]["active"] is None
    assert lonely["prefix_cache"]["active"] is False
    assert lonely["chunked_prefill"]["active"] is None
    assert lonely["weight_kernel"]["active"] is True
    engine.submit(request("b", range(40), 5))
    engine.submit(request("c", [9, 2, 3], 3))
    engine.step()
    engine.submit(request("d", range(40), 5))
    drain(engine)
    busy = entries(engine)
    for name in ("batching", "prefix_cache", "chunked_prefill", "token_budget", "slots", "threads"):
        assert busy[name]["active"] is True, name
        assert busy[name]["counter"]["value"] > 0
    off, _ = make(prefix_cache="none", chunked_prefill=False, weight_kernel="reference")
    off.submit(request("a", [1], 2))
    drain(off)
    assert [
        entries(off)[name]["active"] for name in ("prefix_cache", "chunked_prefill", "weight_kernel")
    ] == [False] * 3


def test_random_aborts_at_high_rate_leave_nothing_behind() -> None:
    chance = random.Random(4)
    config = EngineConfig(slots=3, token_budget=8, page_size=4, pool_tokens=64, prefix_cache="hash")
    engine, collector = make(config, ToyRunner(delay=0.0002))
    engine.start()
    ids = [f"r{index}" for index in range(60)]
    for id in ids:
        engine.submit(request(id, [chance.randrange(5) for _ in range(chance.randrange(1, 20))], 8))
        for victim in chance.sample(ids, 3):
            engine.abort(victim)
        if chance.random() < 0.3:
            time.sleep(0.001)
    wait_until(lambda: finished(collector, ids))
    wait_until(lambda: engine.stats().running == 0)
    engine.stop()
    assert engine.stats().pages_used == 0 and engine.stats().error is None
    assert all(sum(output.finish is not None for output in collector.outputs(id)) == 1 for id in ids)
