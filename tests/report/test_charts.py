"""Charts: places on the axes, against an obvious computation."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooftune.report.html import effect_chart, goal_chart, latency_chart, roof_chart, split_chart
from rooftune.report.html.scale import Scale, covering, ratio_ticks, ratios
from rooftune.report.html.svg import element
from rooftune.store.result import Interval, Prediction, TechniqueOutcome


def numbers(markup: str, attribute: str) -> list[float]:
    return [float(v) for v in re.findall(rf' {attribute}="([0-9.]+)%?"', markup)]


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20), st.booleans())
def test_a_covering_scale_holds_everything_in_order(values: list[float], from_zero: bool) -> None:
    scale = covering(values, from_zero=from_zero)
    assert scale is not None and scale.high > scale.low
    places = [scale(v) for v in sorted(values)]
    assert places == sorted(places)
    assert all(scale.holds(v) for v in values)
    ticks = scale.ticks(5)
    assert len(ticks) <= 6 and all(
        scale.low - 1e-6 * abs(scale.low) <= t <= scale.high * (1 + 1e-6) or t == 0 for t in ticks
    )


@given(st.lists(st.floats(1e-3, 1e3), max_size=12))
def test_a_ratio_scale_always_shows_no_change(values: list[float]) -> None:
    scale = ratios(values)
    assert scale.holds(1.0) and 1.0 in ratio_ticks(scale)
    assert scale.low >= 1 / 32 and scale.high <= 32


def test_attributes_and_children_are_escaped() -> None:
    assert (
        element("text", "<b>&", aria_label='"><script>')
        == '<text aria-label="&#34;&gt;&lt;script&gt;">&lt;b&gt;&amp;</text>'
    )


def test_latency_chart_gives_quantiles_and_share_within_the_slo() -> None:
    values = [i / 100 for i in range(1, 101)]
    chart = latency_chart.latency_chart("ttft", {"final": values, "baseline": values[:20]}, 0.5)
    assert chart is not None
    baseline, final = chart.rows
    assert baseline[1] == "Baseline (20 requests)" and final[1] == "Final (100 requests)"
    assert final[2] == ["500 ms", "900 ms", "950 ms", "needs 299"]
    assert baseline[2][2] == "needs 59"
    assert final[3] == "50.0 %" and baseline[3] == "100 %"
    heights = [float(y) for y in re.findall(r"V([0-9.]+)", chart.plot)]
    assert min(heights) == 0.0


def test_latency_chart_without_values_is_none() -> None:
    assert latency_chart.latency_chart("ttft", {"final": [], "baseline": [math.nan]}, 1.0) is None


PARTS = [
    {"name": "a", "seconds": 0.03, "kind": "computed"},
    {"name": "b", "seconds": 0.01, "kind": "measured"},
]


def widths(markup: str) -> list[float]:
    return [float(w) for w in re.findall(r'width="([0-9.]+)%" height="34" class="part', markup)]


def test_parts_of_a_step_are_drawn_to_scale() -> None:
    (chart,) = split_chart.split_charts({"baseline": {"parts": PARTS}, "final": {"parts": PARTS[1:]}})
    assert widths(chart.bars[0].bar) == [75.0, 25.0]
    assert widths(chart.bars[1].bar) == [25.0]
    assert chart.rows[0][1:] == ("a", "computed", ["30.0 ms", "–"])
    assert split_chart.split_charts({"baseline": {"parts": []}}) == []


def test_splits_of_the_diagnosis_have_a_chart_each_with_their_roof() -> None:
    step = {"measured": 0.05, "floor": 0.03, "basis": "of 4 sequences", "reason": None, "parts": PARTS}
    none = {"measured": None, "floor": None, "basis": "", "reason": "no step log", "parts": []}
    charts = split_chart.split_charts(
        {
            "baseline": {"parts": PARTS, "decode_step": step, "ttft": step},
            "final": {"parts": [], "decode_step": none, "ttft": none},
        }
    )
    assert [chart.title for chart in charts] == ["Time to first token", "One decode step"]
    assert widths(charts[0].bars[0].bar) == [60.0, 20.0]
    assert 'x1="60.000%" x2="60.000%"' in charts[0].bars[0].bar and "roof 30.0 ms" in charts[0].bars[0].bar
    assert charts[0].bars[0].total == "50.0 ms, measured"
    assert charts[0].notes == ["Baseline: of 4 sequences", "Final: no step log"]


@pytest.mark.parametrize(
    ("metric", "effect", "tone"),
    [
        ("ttft_p95", Interval(0.5, 0.4, 0.6), "better"),
        ("ttft_p95", Interval(1.5, 1.4, 1.6), "worse"),
        ("goodput", Interval(1.5, 1.4, 1.6), "better"),
        ("goodput", Interval(0.5, 0.4, 0.6), "worse"),
        ("ttft_p95", Interval(0.9, 0.8, 1.01), "unclear"),
        ("unheard_of", Interval(0.5, 0.4, 0.6), "unclear"),
        ("ttft_p95", None, "unclear"),
    ],
)
def test_better_and_worse_only_with_an_interval_and_a_direction(
    metric: str, effect: Interval | None, tone: str
) -> None:
    assert effect_chart.tone(metric, effect) == tone


def test_predicted_and_measured_share_one_axis() -> None:
    technique = TechniqueOutcome(
        "t", "T", "accepted", "r", {}, [Prediction("ttft_p95", 0.25, 0.5, "b", True)],
        {"ttft_p95": Interval(0.5, 0.4, 0.625), "e2e_p50": Interval(1.0, 0.9, 1.1)},
    )  # fmt: skip
    scale = Scale(0.25, 4.0, log=True)
    first, second = effect_chart.effect_rows(technique, scale)
    assert first.metric == "ttft_p95" and first.hit is True
    assert numbers(first.plot, "cx") == [pytest.approx(25.0)]
    assert second.predicted == "Not predicted" and numbers(second.plot, "cx") == [pytest.approx(50.0)]
    assert "measured 2.0 × lower" in first.plot


def test_goal_line_shades_the_forbidden_side() -> None:
    below = goal_chart.goal_chart("ttft_p95", 2.0, 0.5, 1.0, "<=")
    assert below is not None and re.search(
        r'x="46\.296%" width="53\.704%"|width="53\.704%" x="46\.296%"', below
    )
    above = goal_chart.goal_chart("slo_attainment", 0.6, 0.98, 0.95, ">=")
    assert above is not None and 'width="95.000%"' in above
    assert goal_chart.goal_chart("ttft_p95", None, None, 1.0, "<=") is None


@pytest.mark.parametrize(
    "roofs",
    [
        {
            "bandwidth": [
                {"bytes": 2**20, "bytes_per_second": 4e10},
                {"bytes": 2**15, "bytes_per_second": 1e11},
            ]
        },
        {
            "read": {
                "points": [
                    {"working_set": 2**20, "bandwidth": 4e10},
                    {"working_set": 2**15, "bandwidth": 1e11},
                ]
            }
        },
    ],
)
def test_bandwidth_points_are_found_and_sorted(roofs: dict[str, object]) -> None:
    assert roof_chart.bandwidth_points(roofs) == [(2.0**15, 1e11), (2.0**20, 4e10)]
    assert roof_chart.bandwidth_chart(roofs) is not None
    assert roof_chart.bandwidth_chart({"x": 1}) is None
    assert roof_chart.bandwidth_chart(None) is None
