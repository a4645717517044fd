"""The load generator against a null server: times, failures, coordinated omission, interruption, secrets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.measure.client.load import run_load
from rooftune.measure.null_server import Behaviour, running
from rooftune.measure.run_bench import bench
from rooftune.measure.target import Target, resolve_target, server_tokenizer
from rooftune.metrics.samples import ttft_of
from rooftune.spec import Price, Workload
from rooftune.store.records import RequestRecord
from rooftune.store.run import Gate, Run
from rooftune.workload.schedule import Schedule, build_schedule


def schedule(requests: int, *, rate: float = 100.0, users: int | None = None, process: str = "poisson",
             output: int | None = 4, seed: int = 1) -> Schedule:  # fmt: skip
    arrivals = (
        {"process": "concurrency", "users": users} if users else {"process": process, "rate": f"{rate}/s"}
    )
    workload = Workload.model_validate({"arrivals": arrivals, "prompts": {"output_tokens": output}})
    return build_schedule(workload, requests=requests, rate=None, seed=seed)


def target(url: str, **more: object) -> Target:
    return Target(url=url, model="null", resolved=True, **more)  # type: ignore[arg-type]


def gate(run: Run, name: str) -> Gate:
    return next(g for g in run.gates if g.name == name)


def test_open_loop_keeps_the_schedule_and_reads_the_servers_times() -> None:
    planned = schedule(40)
    with running(Behaviour(ttft=0.05, itl=0.01, tokens=4)) as server:
        outcome = run_load(target(server.url), planned)
    records = outcome.records
    assert [r.index for r in records] == list(range(40))
    assert all(r.succeeded and r.output_tokens == 4 for r in records)
    assert [r.scheduled_ns - outcome.begin_ns for r in records] == [e.offset_ns for e in planned.entries]
    assert all(r.sent_ns is not None and r.sent_ns >= r.scheduled_ns for r in records)
    # The server may answer late on a busy machine, never early.
    assert min(t for r in records if (t := ttft_of(r)) is not None) >= 0.05
    assert all(c.tokens == 1 for r in records for c in r.chunks if c.kind == "content")


def test_closed_loop_never_has_more_in_flight_than_users_and_schedules_after_the_answer() -> None:
    with running(Behaviour(ttft=0.01, itl=0.001)) as server:
        records = run_load(target(server.url), schedule(24, users=3)).records
        assert server.connections == 3
    assert len(records) == 24 and all(r.succeeded for r in records)
    events = sorted([(r.sent_ns, 1) for r in records] + [(r.end_ns, -1) for r in records])
    assert max(np.cumsum([step for _, step in events])) <= 3
    ends = {r.end_ns for r in records}
    assert sum(r.scheduled_ns in ends for r in records) == 21


def test_a_closed_loop_ends_by_the_clock() -> None:
    with running(Behaviour(ttft=0.05, itl=0.0)) as server:
        outcome = run_load(target(server.url), schedule(500, users=2), maximum_seconds=0.4)
    assert 4 <= len(outcome.records) <= 18 and not outcome.interrupted
    assert all(r.succeeded for r in outcome.records), "a request that was on its way is waited for"


def test_coordinated_omission_is_in_the_open_loop_and_missing_from_the_closed_one() -> None:
    """A server that stands still for 0.3 s of every 0.6 s."""
    stall = Behaviour(ttft=0.0, itl=0.0, tokens=1, stall_every=0.6, stall_for=0.3)
    with running(stall) as server:
        planned = schedule(240, rate=100.0, process="constant", output=1)
        open_records = run_load(target(server.url), planned).records
        started = round(server.started * 1e9)
        closed = run_load(target(server.url), schedule(400, users=1, output=1), maximum_seconds=1.5).records
    waits = np.asarray([t for r in open_records if (t := ttft_of(r)) is not None])
    expected = []
    for record in open_records:
        phase = ((record.scheduled_ns - started) / 1e9) % 0.6
        expected.append(0.6 - phase if phase >= 0.3 else 0.0)
    assert np.quantile(waits, 0.9) == pytest.approx(np.quantile(expected, 0.9), rel=0.2)
    # One user meets one stall a period: hardly any of the many fast requests between tells of it.
    told = np.asarray([t for r in closed if (t := ttft_of(r)) is not None])
    assert np.quantile(told, 0.9) < 0.5 * np.quantile(waits, 0.9)


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (Behaviour(fault="status_429"), "status_429"),
        (Behaviour(fault="status_500"), "status_500"),
        (Behaviour(fault="error_body"), "body"),
        (Behaviour(fault="whole_answer"), "body"),
        (Behaviour(fault="error_event"), "stream"),
        (Behaviour(fault="close_midstream"), "stream"),
        (Behaviour(fault="empty"), "empty"),
        (Behaviour(fault="not_http"), "http"),
        (Behaviour(fault="no_answer"), "timeout"),
    ],
)
def test_every_failure_is_reported_for_what_it_is(behaviour: Behaviour, error: str) -> None:
    with running(behaviour) as server:
        records = run_load(target(server.url, timeout=0.4), schedule(4)).records
    assert [r.error for r in records] == [error] * 4
    assert not any(r.succeeded for r in records)
    assert all(r.end_ns is not None for r in records)


def test_a_split_event_and_a_split_character_do_not_change_the_answer() -> None:
    with running(Behaviour(ttft=0, itl=0, text="é✓", split=7, line_end="\r\n\r\n")) as server:
        records = run_load(target(server.url), schedule(2), text="full").records
    assert [r.text for r in records] == ["é✓" * 4] * 2
    assert all(r.output_tokens == 4 for r in records)


def test_a_server_that_closes_kept_connections_is_not_a_failure() -> None:
    """The server drops the connection right behind each answer, as the next request is on its way."""
    with running(Behaviour(ttft=0, itl=0, drops_connection=True)) as server:
        answers: list[RequestRecord] = run_load(target(server.url), schedule(30, users=2)).records
        assert server.connections >= 15
    assert [r.error for r in answers] == [None] * 30


def test_an_unreachable_server_is_an_environment_problem_of_one_line() -> None:
    with running() as server:
        gone = server.url
    with pytest.raises(EnvironmentProblem, match="cannot be reached"):
        run_load(target(gone), schedule(2))
    with pytest.raises(EnvironmentProblem, match="cannot be reached"):
        resolve_target(Target(url=gone, model=""))


def test_the_model_is_found_and_a_wrong_one_is_refused() -> None:
    with running(Behaviour(model="small")) as server:
        found = resolve_target(Target(url=server.url + "/v1/chat/completions", model=""))
        assert found.model == "small" and found.continuous_usage and found.ignore_eos
        with pytest.raises(WrongInput, match="it serves: small"):
            resolve_target(Target(url=server.url, model="large"))
        count = server_tokenizer(found)
        assert count is not None and count([{"role": "user", "content": "a b c"}]) == 12


def test_a_foreign_server_is_not_asked_for_what_it_may_refuse() -> None:
    with running(Behaviour(owned_by="openai", model="null")) as server:
        known = resolve_target(Target(url=server.url, model=""))
        run_load(known, schedule(1))
        assert not known.ignore_eos
        assert "ignore_eos" not in server.requests[0]
        assert server.requests[0]["stream_options"] == {"include_usage": True}


def test_a_key_reaches_the_server_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "sk-very-secret")
    with running() as server:
        asked = target(server.url, api_key_env="TEST_KEY", headers=(("X-Tenant", "hidden-value"),))
        run = bench(asked, schedule(3), warmup=0)
        assert server.headers[0]["authorization"] == "Bearer sk-very-secret"
        assert server.headers[0]["x-tenant"] == "hidden-value"
    kept = repr(run)
    assert "very-secret" not in kept and "hidden-value" not in kept and "X-Tenant" in kept
    monkeypatch.delenv("TEST_KEY")
    with pytest.raises(WrongInput, match="TEST_KEY"):
        run_load(asked, schedule(1))


def test_a_header_cannot_smuggle_a_line() -> None:
    with running() as server, pytest.raises(WrongInput, match="header"):
        run_load(target(server.url, headers=(("X", "a\r\nY: b"),)), schedule(1))


def test_bench_gives_a_valid_run_with_warm_up_outside_its_records() -> None:
    planned = schedule(70, rate=60.0)
    with running(Behaviour(ttft=0.02, itl=0.002, cached_tokens=30)) as server:
        run = bench(
            Target(url=server.url, model=""),
            planned,
            slo={"ttft": 5.0},
            price=Price(amount=3.6, currency="EUR"),
            percentiles=("p95",),
            warmup=3,
        )
        prompts = [json.dumps(r["messages"]) for r in server.requests]
    assert len(run.records) == 70 and len(prompts) == 73
    assert len(set(prompts)) == 73, "a warm-up prompt was used again"
    for name in ("rate_sent", "errors", "samples", "output_lengths", "token_counts", "prefix_cache"):
        assert gate(run, name).ok is True, gate(run, name)
    assert run.complete and run.schedule_hash == planned.hash
    attained, cost = run.metric("slo_attainment"), run.metric("cost_per_million_output_tokens")
    assert attained is not None and attained.value == 1.0
    assert cost is not None and cost.unit == "EUR" and cost.value is not None
    assert {s.name for s in run.series} >= {"cpu", "memory_used"}


def test_gates_say_what_is_wrong() -> None:
    with running(Behaviour(ttft=0, itl=0, fault="status_500", fault_every=20)) as server:
        run = bench(target(server.url), schedule(60), warmup=0)
    assert not run.valid
    failed = gate(run, "errors")
    assert failed.ok is False and failed.value == pytest.approx(0.05) and "status_500" in failed.reason

    with running(Behaviour(ttft=0, itl=0, tokens=7, honours_length=False)) as server:
        run = bench(target(server.url), schedule(10), warmup=0)
    assert gate(run, "output_lengths").ok is False and "ignore_eos" in gate(run, "output_lengths").reason

    with running(Behaviour(ttft=0, itl=0, fault="no_usage")) as server:
        run = bench(target(server.url, continuous_usage=False), schedule(10), warmup=0, percentiles=("p99",))
    assert gate(run, "token_counts").ok is None and "lower bound" in gate(run, "token_counts").reason
    assert gate(run, "samples").ok is False and "299" in gate(run, "samples").reason

    with running(Behaviour(ttft=0, itl=0, cached_tokens=99)) as server:
        run = bench(target(server.url), schedule(10), warmup=0)
    assert gate(run, "prefix_cache").ok is False and "warm" in gate(run, "prefix_cache").reason


def test_a_rate_beyond_the_server_is_noticed() -> None:
    with running(Behaviour(ttft=0.05, itl=0, slots=1)) as server:
        run = bench(target(server.url), schedule(60, rate=60.0), warmup=0)
    overloaded = gate(run, "rate_achieved")
    assert overloaded.ok is False and overloaded.value is not None and overloaded.value < 0.7
    assert gate(run, "rate_sent").ok is True


def test_several_tokens_a_chunk_are_counted_as_tokens() -> None:
    with running(Behaviour(ttft=0.01, itl=0.005, tokens_per_chunk=4)) as server:
        records = run_load(target(server.url), schedule(5, output=12)).records
    for record in records:
        chunks = [c.tokens for c in record.chunks if c.kind == "content"]
        assert chunks == [4, 4, 4] and record.output_tokens == 12


@pytest.mark.slow
def test_an_interrupted_run_keeps_what_was_answered(tmp_path: Path) -> None:
    program = f"""
import sys
from rooftune.measure.null_server import Behaviour, running
from rooftune.measure.run_bench import Target, bench
from rooftune.spec import Workload
from rooftune.store.run_files import save_run
from rooftune.workload.schedule import build_schedule
work = Workload.model_validate({{"arrivals": {{"process": "constant", "rate": "20/s"}}}})
planned = build_schedule(work, requests=2000, rate=None, seed=1)
with running(Behaviour(ttft=0.2, itl=0.01, tokens=10)) as server:
    print("ready", flush=True)
    run = bench(Target(url=server.url, model=""), planned, warmup=0)
    save_run(run, {str(tmp_path / "run")!r})
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    time.sleep(2.0)
    os.kill(child.pid, signal.SIGINT)
    assert child.wait(30) == 0
    from rooftune.store.run_files import load_run

    run = load_run(tmp_path / "run")
    assert not run.complete and not run.valid and "interrupted after" in str(run.incomplete_reason)
    assert sum(r.succeeded for r in run.records) >= 3
    assert any(r.error == "interrupted" for r in run.records)
    assert len(run.records) < 2000


@pytest.mark.slow
def test_a_client_that_was_stopped_is_noticed() -> None:
    with running(Behaviour(ttft=0.0, itl=0.0)) as server:
        program = f"""
from rooftune.measure.run_bench import Target, bench
from rooftune.spec import Workload
from rooftune.workload.schedule import build_schedule
work = Workload.model_validate({{"arrivals": {{"process": "constant", "rate": "20/s"}}}})
planned = build_schedule(work, requests=40, rate=None, seed=1)
print("ready", flush=True)
run = bench(Target(url={server.url!r}, model=""), planned, warmup=0)
print(next(g.ok for g in run.gates if g.name == "client_stall"))
"""
        helper = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        assert helper.stdout is not None and helper.stdout.readline() == "ready\n"
        while not server.requests:
            time.sleep(0.02)
        os.kill(helper.pid, signal.SIGSTOP)
        stop = threading.Timer(1.0, lambda: os.kill(helper.pid, signal.SIGCONT))
        stop.start()
        assert helper.stdout.readline() == "False\n"
        assert helper.wait(20) == 0
