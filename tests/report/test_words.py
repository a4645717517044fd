"""Numbers in words: what a reader takes from a ratio, an interval, an amount."""

from __future__ import annotations

import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooftune.report import labels, words
from rooftune.store.result import Interval

finite = st.floats(min_value=1e-12, max_value=1e18)


@pytest.mark.parametrize(
    ("effect", "expected"),
    [
        (Interval(0.262, 0.231, 0.297), "3.8 × lower (3.4 to 4.3)"),
        (Interval(2.31, 2.1, 2.5), "2.3 × higher (2.1 to 2.5)"),
        (Interval(1.042, 1.01, 1.073), "4.2 % higher (1.0 to 7.3 %)"),
        (Interval(0.74, 0.68, 0.80), "26 % lower (20 to 32 %)"),
        (Interval(1.557, 1.49, 1.63), "1.6 × higher (1.5 to 1.6)"),
        (Interval(0.97, 0.91, 1.04), "no clear change (9.0 % lower to 4.0 % higher)"),
        (Interval(1.0, 1.0, 1.0), "unchanged"),
        (Interval(math.nan, 0.9, 1.1), words.MISSING),
        (None, words.MISSING),
    ],
)
def test_a_ratio_says_direction_size_and_interval(effect: Interval | None, expected: str) -> None:
    assert words.ratio(effect) == expected


def test_shares_change_by_points() -> None:
    assert words.points(Interval(1.5, 1.4, 1.6), 0.6) == "30 points higher (24 to 36)"
    assert words.points(Interval(0.99, 0.9, 1.05), 0.8) == "no clear change (−8.0 to +4.0 points)"


@given(st.floats(0.01, 100), st.floats(1.0, 3.0), st.floats(1.0, 3.0))
def test_a_direction_is_only_claimed_when_the_interval_excludes_no_effect(
    value: float, down: float, up: float
) -> None:
    effect = Interval(value, value / down, value * up)
    text = words.ratio(effect)
    decided = not effect.low <= 1 <= effect.high
    assert text.startswith(("no clear change", "unchanged")) != decided
    if decided:
        assert ("lower" in text) == (value < 1)
        assert ("higher" in text) == (value > 1)


@given(finite)
def test_a_number_keeps_three_significant_digits(value: float) -> None:
    text = words.number(value).replace(",", "")
    mantissa, _, exponent = text.partition(" × 10")
    power = int(exponent.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-"))) if exponent else 0
    assert float(mantissa) * 10.0**power == pytest.approx(value, rel=5.1e-3)
    assert "e" not in text


@given(st.one_of(st.none(), st.floats()))
def test_nothing_missing_is_ever_written_as_a_number(value: float | None) -> None:
    for text in (
        words.number(value),
        words.duration(value),
        words.percent(value),
        words.money(value, "USD"),
        words.scaled(value, "B"),
    ):
        assert "nan" not in text.lower() and "inf" not in text.lower() and "None" not in text
        assert (text == words.MISSING) == (value is None or not math.isfinite(value))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0 s"), (8.5e-7, "0.850 µs"), (0.00042, "420 µs"), (0.412, "412 ms"), (0.9999, "1.00 s"), (3.2, "3.20 s"), (384, "6.4 min"), (9000, "2.50 h")],
)  # fmt: skip
def test_durations_take_the_unit_that_reads_best(seconds: float, expected: str) -> None:
    assert words.duration(seconds) == expected


def test_a_share_just_below_one_is_not_rounded_to_all() -> None:
    assert words.percent(0.99997) == ">99.9 %"
    assert words.percent(1.0) == "100 %"
    assert words.percent(0.9826) == "98.3 %"


@pytest.mark.parametrize(
    ("amount", "currency", "expected"),
    [(0.672, "USD", "$0.672"), (0.61, "USD", "$0.61"), (0.1, "EUR", "€0.10"), (12.5, "CHF", "12.50 CHF"), (1234.5, "usd", "$1,234"), (0.0, "USD", "$0")],
)  # fmt: skip
def test_money(amount: float, currency: str, expected: str) -> None:
    assert words.money(amount, currency) == expected


@given(st.text())
def test_one_line_is_one_line_without_controls(text: str) -> None:
    line = words.one_line(text)
    assert line == line.strip() and not [c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs")]
    assert words.one_line(line) == line


def test_metrics_are_named_and_written_in_their_unit() -> None:
    assert labels.label("ttft_p95") == "TTFT p95"
    assert labels.value("ttft_p95", 0.5) == "500 ms"
    assert labels.value("slo_attainment", 0.95) == "95.0 %"
    assert labels.value("cost_per_million_output_tokens", 0.5, "", "EUR") == "€0.50"
    assert labels.direction("ttft_p95") == "lower"
    assert labels.direction("goodput") == "higher"
    assert labels.direction("something_new") == "unknown"
    assert labels.label("something_new") == "something new"
