"""The page as Chromium lays it out: a laptop's and a phone's width, light and dark."""

from __future__ import annotations

import struct
from pathlib import Path

import chromium
import pytest
import sample_result

from rooftune.report.html.page import render_html

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(
        chromium.CHROMIUM is None, reason="Chromium is not installed (apt-get install chromium)"
    ),
]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["improved", "partial", "hostile", "many_techniques"])
def test_nothing_sticks_out_and_nothing_is_loaded(name: str, width: int, tmp_path: Path) -> None:
    found = chromium.measure(render_html(sample_result.ALL[name]()), width, tmp_path)
    assert found["client"] == width
    assert found["scroll"] == width, found["wide"]
    assert found["wide"] == []
    assert found["loads"] == 0


def test_the_answers_are_on_the_first_screen_of_a_laptop(tmp_path: Path) -> None:
    found = chromium.measure(render_html(sample_result.improved()), 1280, tmp_path)
    assert found["first"] <= 960


def test_a_page_that_is_too_wide_is_caught(tmp_path: Path) -> None:
    page = render_html(sample_result.improved()).replace("<main", '<div style="width:600px">x</div><main', 1)
    found = chromium.measure(page, 390, tmp_path)
    assert found["scroll"] > 390 and found["wide"]


def test_light_and_dark_are_different_pictures(tmp_path: Path) -> None:
    page = render_html(sample_result.improved())
    shots = [
        chromium.screenshot(page, 1280, 900, tmp_path / f"{dark}.png", dark=dark).read_bytes()
        for dark in (False, True)
    ]
    for shot in shots:
        assert shot[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", shot[16:24]) == (1280, 900)
    assert shots[0] != shots[1]
