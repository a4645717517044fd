"""What the user asks for: read with its units, refused with one line that says what to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooftune.errors import WrongInput
from rooftune.spec import (
    Price,
    format_quantity,
    load_spec,
    parse_bound,
    parse_goal_expression,
    parse_quantity,
    parse_spec,
)
from rooftune.spec.units import Dimension


def spec(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "model": "m",
        "slo": {"ttft": "400ms"},
        "workload": {"arrivals": {"process": "poisson", "rate": "4/s"}},
    }
    return {**base, **changes}


@pytest.mark.parametrize(
    ("text", "dimension", "expected"),
    [
        ("400ms", "time", 0.4),
        ("1.5 s", "time", 1.5),
        ("10min", "time", 600.0),
        ("250us", "time", 250e-6),
        ("0", "time", 0.0),
        ("4/s", "rate", 4.0),
        ("240/min", "rate", 4.0),
        ("95%", "share", 0.95),
        ("0.95", "share", 0.95),
        (0.5, "share", 0.5),
        ("12", "count", 12.0),
        ("1e-2", "plain", 0.01),
    ],
)
def test_quantities(text: str | float, dimension: Dimension, expected: float) -> None:
    assert parse_quantity(text, dimension) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "dimension"),
    [
        ("400", "time"),
        (400, "time"),
        ("4", "rate"),
        ("4s", "rate"),
        ("4/s", "time"),
        ("120%", "share"),
        ("-1ms", "time"),
        ("abc", "time"),
        ("inf", "plain"),
        ("1e999", "plain"),
        (True, "count"),
        ("3 apples", "count"),
    ],
)
def test_wrong_quantities_say_what_was_expected(text: Any, dimension: Dimension) -> None:
    with pytest.raises(ValueError, match=r"expected|not between|negative|not finite|not a number"):
        parse_quantity(text, dimension)


@given(st.floats(1e-6, 100))
def test_a_formatted_time_reads_back(seconds: float) -> None:
    shown = format_quantity(seconds, "time")
    assert parse_quantity(shown, "time") == pytest.approx(seconds, rel=0.51 if seconds < 1e-5 else 0.06)


def test_a_bound_carries_its_sign() -> None:
    goal = parse_bound("ttft_p95", "<= 400ms", "time")
    assert goal.met(0.4) and not goal.met(0.401)
    assert parse_goal_expression("goodput>=2/s").met(2.0)
    for text in ("400ms", "< 400ms", "= 400ms", "<= 4/s"):
        with pytest.raises(ValueError, match="goal ttft_p95"):
            parse_bound("ttft_p95", text, "time")
    with pytest.raises(ValueError, match="did you mean 'ttft_p95'"):
        parse_goal_expression("tfft_p95<=400ms")
    with pytest.raises(ValueError, match="write it as"):
        parse_goal_expression("ttft_p95 400ms")


def test_a_whole_spec() -> None:
    read = parse_spec(
        spec(
            goals={"slo_attainment": ">= 95%", "ttft_p95": "<= 400ms", "quality": {"kl_mean": "<= 0.02"}},
            price={"amount": 3.6, "per": "hour"},
            budget={"time": "10min"},
            baseline={"techniques": {"batching": "static", "slots": 4}},
        )
    )
    assert read.slo == {"ttft": 0.4}
    assert [str(g) for g in read.goals.bounds] == ["slo_attainment >= 95.0 %", "ttft_p95 <= 400 ms"]
    assert read.goals.quality[0].metric == "kl_mean"
    assert read.price is not None and read.price.per_second == pytest.approx(0.001)
    assert read.budget.time == 600.0
    assert read.permissions == {"load", "restart"}


def test_a_server_of_others_is_only_loaded() -> None:
    there = parse_spec(spec(runtime={"name": "url", "options": {"base_url": "http://x"}}))
    assert there.permissions == {"load"}
    assert Price(amount=730.0, per="month").per_second == pytest.approx(1 / 3600)


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        (spec(modle="x"), "unknown key 'modle'; did you mean 'model'"),
        (
            spec(workload={"arrivals": {"process": "poisson", "rat": "4/s"}}),
            "unknown key 'workload.arrivals.rat'; did you mean 'rate'",
        ),
        ({"model": "m"}, "'workload' is missing"),
        (spec(slo={"ttft": "4/s"}), "slo.ttft.*wrong dimension"),
        (spec(slo={"ttft": "0"}), "above 0"),
        (spec(workload={"arrivals": {"process": "poisson"}}), "need 'rate'"),
        (spec(workload={"arrivals": {"process": "poisson", "rate": "0/s"}}), "above 0"),
        (spec(workload={"arrivals": {"process": "concurrency"}}), "'users'"),
        (
            spec(workload={"arrivals": {"process": "concurrency", "users": 2, "rate": "4/s"}}),
            "take no 'rate'",
        ),
        (spec(goals={"ttft_p96": "<= 1s"}), "did you mean 'ttft_p9"),
        (spec(goals={"ttft_p95": "1s"}), "sign"),
        (spec(goals={"quality": {"kl_men": "<= 1"}}), "did you mean 'kl_mean'"),
        (spec(slo={}, goals={"goodput": ">= 1/s"}), "'slo' states no bound"),
        (spec(goals={"cost_per_million_output_tokens": "<= 1"}), "needs 'price'"),
    ],
)
def test_a_wrong_spec_is_one_line_that_says_what_to_change(raw: dict[str, Any], match: str) -> None:
    with pytest.raises(WrongInput, match=match) as problem:
        parse_spec(raw)
    assert "\n" not in str(problem.value)


def test_spec_files(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("model: m\nworkload:\n  arrivals: {process: constant, rate: 2/s}\n")
    assert load_spec(file).workload.arrivals.rate == 2.0
    for content, match in (
        (b"model: [", "not valid YAML"),
        (b"- a", "mapping"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"", "mapping"),
        (b"x" * (1 << 20) + b"y", "larger than 1 MiB"),
    ):
        file.write_bytes(content)
        with pytest.raises(WrongInput, match=match):
            load_spec(file)
    with pytest.raises(WrongInput, match="no such"):
        load_spec(tmp_path / "nowhere.yaml")
    with pytest.raises(WrongInput, match="folder"):
        load_spec(tmp_path)
