"""A run comes back as it was, or is refused in one line; nothing half-written is read as whole."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.store.encode import record_from_json, record_to_json
from rooftune.store.ledger import LedgerEntry
from rooftune.store.records import ChunkRecord, RequestRecord
from rooftune.store.run import Gate, MetricValue, Run, Series
from rooftune.store.run_files import load_run, save_run

ns = st.integers(0, 2**62)
chunks = st.builds(
    ChunkRecord,
    arrival_ns=ns,
    kind=st.sampled_from(["role", "content", "reasoning", "tool", "usage", "done", "error"]),
    bytes=st.integers(0, 10**6),
    tokens=st.none() | st.integers(1, 100),
    earliest_ns=st.none() | ns,
)
records = st.builds(
    RequestRecord,
    index=st.integers(0, 10**7),
    scheduled_ns=ns,
    sent_ns=st.none() | ns,
    end_ns=st.none() | ns,
    status=st.none() | st.integers(100, 599),
    error=st.none() | st.sampled_from(["timeout", "status_429"]),
    error_detail=st.none() | st.text(),
    chunks=st.lists(chunks, max_size=6),
    session=st.none() | st.integers(0, 99),
    prompt_tokens=st.none() | st.integers(0, 10**6),
    prompt_tokens_source=st.none() | st.just("usage"),
    output_tokens=st.none() | st.integers(0, 10**6),
    finish_reason=st.none() | st.text(),
    server_timings=st.none() | st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False)),
    text=st.none() | st.text(),
)


def run_with(kept: tuple[RequestRecord, ...], **changes: object) -> Run:
    values: dict[str, object] = {
        "id": "r1",
        "label": "test",
        "started_at": "2026-01-01T00:00:00+00:00",
        "target": {"url": "http://127.0.0.1:1", "model": "m"},
        "workload": {"source": "builtin:chat"},
        "schedule_hash": "abc",
        "slo": {"ttft": 0.4},
        "price_per_second": 0.1,
        "currency": "USD",
        "environment": {"cores": 2},
        "roofs": None,
        "resolved": {"switches": {"slots": 4}},
        "ledger": (LedgerEntry("slots", 4, True, "told", "steps", 3.0),),
        "records": kept,
        "begin_ns": 1,
        "end_ns": 2,
        "counters": {"steps": 3.0},
        "series": (Series("cpu", "share", (1, 2), (0.5, 0.25)),),
        "steps": ({"begin_ns": 1.0, "seconds": 0.5},),
        "gates": (Gate("errors", None, None, 0.01, "why"),),
        "metrics": (MetricValue("ttft_p50", None, "s", reason="too few"),),
    }
    return Run(**{**values, **changes})  # type: ignore[arg-type]


@given(records)
def test_a_record_comes_back_as_it_was(record: RequestRecord) -> None:
    assert record_from_json(json.loads(json.dumps(record_to_json(record)))) == record


@settings(max_examples=10, deadline=None)
@given(st.lists(records, max_size=4))
def test_a_run_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, kept: list[RequestRecord]
) -> None:
    place = tmp_path_factory.mktemp("runs") / "a" / "b"
    run = run_with(tuple(kept))
    save_run(run, place)
    assert load_run(place) == run
    assert load_run(place / "run.json") == run
    assert [p.name for p in place.parent.iterdir()] == ["b"]


def test_saving_again_replaces_the_run_and_nothing_else(tmp_path: Path) -> None:
    save_run(run_with(()), tmp_path / "r")
    save_run(run_with((), label="second"), tmp_path / "r")
    assert load_run(tmp_path / "r").label == "second"
    assert [p.name for p in tmp_path.iterdir()] == ["r"]
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter").write_text("x")
    with pytest.raises(WrongInput, match="not a run"):
        save_run(run_with(()), other)
    assert (other / "chapter").read_text() == "x"


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        save_run(run_with((), environment={"x": object()}), tmp_path / "r")
    with pytest.raises(ValueError, match=r"nan|NaN|compliant"):
        save_run(run_with((), counters={"x": float("nan")}), tmp_path / "r")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentProblem, match="cannot be written"):
        save_run(run_with(()), tmp_path / "file" / "r")


@pytest.mark.parametrize("name", ["run.json", "records.jsonl.gz"])
def test_any_truncation_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    kept = tuple(RequestRecord(i, i, chunks=[ChunkRecord(i, "content", 3)]) for i in range(20))
    whole = save_run(run_with(kept), tmp_path / "whole")
    content = (whole / name).read_bytes()
    for cut in (0, 1, len(content) // 2, len(content) - 1):
        broken = tmp_path / f"cut-{cut}"
        shutil.copytree(whole, broken)
        (broken / name).write_bytes(content[:cut])
        with pytest.raises(WrongInput) as problem:
            load_run(broken)
        assert "\n" not in str(problem.value)
    (whole / name).unlink()
    with pytest.raises(WrongInput):
        load_run(whole)


def test_records_of_another_run_are_refused(tmp_path: Path) -> None:
    one = save_run(run_with((RequestRecord(0, 1),)), tmp_path / "one")
    other = save_run(run_with((RequestRecord(0, 2),)), tmp_path / "other")
    shutil.copy(other / "records.jsonl.gz", one / "records.jsonl.gz")
    with pytest.raises(WrongInput, match="digest"):
        load_run(one)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match="no such run"):
        load_run(tmp_path / "nowhere")
    with pytest.raises(WrongInput, match="not a run"):
        load_run(tmp_path)
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(WrongInput, match="not a Rooftune run"):
        load_run(tmp_path)
    (tmp_path / "run.json").write_text('{"format": "rooftune-run", "version": 99}')
    with pytest.raises(WrongInput, match="version 99"):
        load_run(tmp_path)


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_leaves_a_whole_run_or_none(tmp_path: Path) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_run_files import run_with, RequestRecord, ChunkRecord, save_run
kept = tuple(RequestRecord(i, i, chunks=[ChunkRecord(i, "content", 3)] * 30) for i in range(300))
print("ready", flush=True)
while True:
    save_run(run_with(kept), {str(tmp_path / "r")!r})
"""
    for wait in (0.05, 0.11, 0.23):
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(wait)
        os.kill(child.pid, signal.SIGKILL)
        child.wait(10)
        if (tmp_path / "r").exists():
            assert len(load_run(tmp_path / "r").records) == 300
