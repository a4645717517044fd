"""A result survives JSON whole, and JSON stays strict whatever the result holds."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
import sample_result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.report.result_json import (
    dumps,
    load_result,
    result_from_json,
    result_to_json,
    write_result,
    write_whole,
)
from rooftune.store.result import GoalOutcome, Interval, Result

ISSUE_KEYS = ("verdict", "goals", "bottleneck", "techniques", "quality", "cost", "runs", "report")

SMALL = replace(
    sample_result.improved(), latency={"final": {"ttft": [0.1, 0.2]}}, runs=sample_result.improved().runs[:2]
)

numbers = st.floats(allow_nan=False, allow_infinity=False)
intervals = st.builds(Interval, numbers, numbers, numbers)
free = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | numbers | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
maps = st.dictionaries(st.text(max_size=8), free, max_size=3)
goals = st.builds(
    GoalOutcome, st.text(max_size=8), st.text(max_size=8), st.sampled_from(["<=", ">="]), numbers, st.text(max_size=4),
    st.none() | numbers, st.none() | numbers, st.none() | st.booleans(), st.none() | numbers, st.none() | intervals,
)  # fmt: skip
results = st.builds(
    lambda verdict, spec, noise, goal, effects, table: replace(
        SMALL, verdict=verdict, spec=spec, noise=noise, goals=goal, effects=effects, table=table
    ),
    st.sampled_from(["improved", "no effect", "regressed", "inconclusive", "invalid"]),
    maps,
    maps,
    st.lists(goals, max_size=3),
    st.dictionaries(st.text(max_size=8), intervals, max_size=3),
    st.dictionaries(
        st.text(max_size=8), st.dictionaries(st.text(max_size=5), st.none() | numbers, max_size=3), max_size=3
    ),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(results)
def test_round_trip(result: Result) -> None:
    text = dumps(result)
    back = result_from_json(json.loads(text))
    assert back == result
    assert dumps(back) == text


@pytest.mark.parametrize("name", sample_result.ALL)
def test_every_sample_is_strict_json_and_stable(name: str) -> None:
    text = dumps(sample_result.ALL[name]())

    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is not JSON")

    data = json.loads(text, parse_constant=refuse)
    assert all(key in data for key in ISSUE_KEYS)
    assert dumps(result_from_json(data)) == text


def test_the_keys_of_the_command_line_contract() -> None:
    data = result_to_json(sample_result.improved())
    assert {"metric", "target", "baseline", "final", "met"} <= set(data["goals"][0])
    assert {"cause", "status", "confidence", "evidence"} <= set(data["bottleneck"]["baseline"])
    assert {"name", "decision", "reason", "predicted", "measured", "active"} <= set(data["techniques"][0])


def test_what_is_not_finite_is_null_and_says_why() -> None:
    result = sample_result.improved()
    result.table["ttft_p95"]["final"] = math.nan
    result.effects["ttft_p95"] = Interval(math.inf, 0.1, 0.2)
    data = result_to_json(result)
    assert data["table"]["ttft_p95"]["final"] is None
    assert "nan" in data["missing"]["table.ttft_p95.final"]
    assert "inf" in data["missing"]["effects.ttft_p95.value"]
    assert math.isnan(result_from_json(data).effects["ttft_p95"].value)


def test_a_missing_part_has_a_reason() -> None:
    data = result_to_json(
        replace(sample_result.improved(), quality=None, roofs=None, missing={"roofs": "the probe failed"})
    )
    assert data["quality"] is None and data["missing"]["quality"]
    assert data["missing"]["roofs"] == "the probe failed"


def test_values_of_numpy_and_paths_become_plain() -> None:
    result = replace(
        sample_result.improved(),
        noise={
            "a": numpy.float32(0.5),
            "b": numpy.arange(3),
            "c": Path("x/y"),
            "d": {3, 1},
            4: numpy.bool_(True),
        },
    )
    data = json.loads(dumps(result))["noise"]
    assert data == {"a": 0.5, "b": [0, 1, 2], "c": "x/y", "d": [1, 3], "4": True}


def test_a_value_without_a_form_is_named() -> None:
    with pytest.raises(TypeError, match=r"noise\.deep\[1\]"):
        result_to_json(replace(sample_result.improved(), noise={"deep": [1, object()]}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "other/9"}, "not a result of this version"),
        ({"verdict": "great"}, "result.verdict is 'great'"),
        ({"goals": 3}, "result.goals is a int"),
        ({"partial": 1}, "result.partial is a int"),
        ({"seconds": True}, "result.seconds is a bool"),
        ({"extra": 1}, "result.extra is not known"),
        ({"effects": {"x": {"value": 1, "low": 1}}}, "result.effects.x.high is missing"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongInput) as problem:
        result_from_json({**result_to_json(sample_result.improved()), **change})
    assert message in str(problem.value)
    assert "\n" not in str(problem.value)


def test_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = write_result(sample_result.improved(), tmp_path / "new" / "folder")
    assert (
        load_result(path)
        == load_result(path.parent)
        == result_from_json(result_to_json(sample_result.improved()))
    )
    assert [p.name for p in path.parent.iterdir()] == ["result.json"]
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write_result(replace(sample_result.improved(), noise={"x": object()}), path.parent)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["result.json"]


def test_a_failing_rename_leaves_the_old_file_and_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_whole(tmp_path / "a.txt", "old")

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(EnvironmentProblem, match=r"a\.txt: cannot be written \(No space left"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_reading_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match="no such result"):
        load_result(tmp_path)
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(WrongInput, match="not valid JSON"):
        load_result(tmp_path)
    (tmp_path / "result.json").write_text("[]")
    with pytest.raises(WrongInput, match=r"result\.json: not a Rooftune result"):
        load_result(tmp_path)
