"""The journal: what is finished stays finished, what was half-written is done again."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.loop.journal import Journal

IDENTITY = {"spec": {"model": "m"}, "version": "1"}


def test_work_is_done_once_and_found_again(tmp_path: Path) -> None:
    calls: list[str] = []

    def work(name: str) -> dict[str, str]:
        calls.append(name)
        return {"name": name}

    journal = Journal(tmp_path / "out", IDENTITY, resume=False)
    assert journal.once("a", lambda: work("a")) == {"name": "a"}
    assert journal.once("a", lambda: work("again")) == {"name": "a"}
    journal.close()

    resumed = Journal(tmp_path / "out", IDENTITY, resume=True)
    assert resumed.once("a", lambda: work("third")) == {"name": "a"}
    assert resumed.once("b", lambda: work("b")) == {"name": "b"}
    resumed.close()
    assert calls == ["a", "b"]


def test_failed_work_is_not_recorded(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "out", IDENTITY, resume=False)
    with pytest.raises(RuntimeError):
        journal.once("a", lambda: (_ for _ in ()).throw(RuntimeError("broken")))
    assert not journal.has("a")
    journal.close()


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(min_value=0, max_value=400))
def test_a_journal_cut_anywhere_keeps_whole_lines(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("cut") / "out"
    journal = Journal(folder, IDENTITY, resume=False)
    for i in range(5):
        journal.once(f"key{i}", lambda i=i: {"i": i})
    journal.close()
    path = folder / "journal.jsonl"
    whole = path.read_bytes()
    kept = whole[: min(cut, len(whole))]
    path.write_bytes(kept)
    complete = kept.count(b"\n")

    again = Journal(folder, IDENTITY, resume=True)
    found = [i for i in range(5) if again.has(f"key{i}")]
    assert found == list(range(max(0, complete - 1)))
    for i in range(5):
        assert again.once(f"key{i}", lambda i=i: {"i": i}) == {"i": i}
    again.close()
    lines = path.read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["identity", *(f"key{i}" for i in range(5))]


def test_another_spec_is_refused_and_named(tmp_path: Path) -> None:
    Journal(tmp_path / "out", IDENTITY, resume=False).close()
    with pytest.raises(WrongInput, match="another spec"):
        Journal(tmp_path / "out", {**IDENTITY, "spec": {"model": "n"}}, resume=True)


def test_an_unfinished_folder_needs_resume(tmp_path: Path) -> None:
    Journal(tmp_path / "out", IDENTITY, resume=False).close()
    with pytest.raises(WrongInput, match="--resume"):
        Journal(tmp_path / "out", IDENTITY, resume=False)


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(WrongInput, match="not empty"):
        Journal(tmp_path, IDENTITY, resume=False)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "out", IDENTITY, resume=False)
    with pytest.raises(EnvironmentProblem, match="another rooftune"):
        Journal(tmp_path / "out", IDENTITY, resume=True)
    journal.close()


def test_time_of_earlier_parts_counts(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "out", IDENTITY, resume=False)
    journal._append("a", 1, 12.5)
    journal.close()
    again = Journal(tmp_path / "out", IDENTITY, resume=True)
    assert again.elapsed() >= 12.5
    again.close()


def test_work_inside_work_is_counted_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "out", IDENTITY, resume=False)

    def inner() -> int:
        time.sleep(0.2)
        return 1

    journal.once("outer", lambda: journal.once("inner", inner))
    journal.close()
    seconds = {}
    for line in (tmp_path / "out" / "journal.jsonl").read_text().splitlines():
        event = json.loads(line)
        seconds[event["key"]] = event["seconds"]
    assert seconds["inner"] >= 0.2
    assert seconds["outer"] < 0.1
