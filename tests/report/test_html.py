"""The page: complete, escaped, without network, and open to a screen reader."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import sample_result

from rooftune.report import summary
from rooftune.report.html.page import render_html

_VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Elements with their attributes, headings in order, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[int] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.captions = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "caption":
            assert self.open[-1] == "table"
            self.captions += 1
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> does not close what is open"

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)

    def words(self) -> str:
        return " ".join("".join(self.text).split())


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: render_html(make()) for name, make in sample_result.ALL.items()}


@pytest.mark.parametrize("name", sample_result.ALL)
def test_self_contained_small_and_well_formed(pages: dict[str, str], name: str) -> None:
    text = pages[name]
    assert len(text.encode()) < 1_000_000
    page = Page(text)
    assert page.open == []
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "video", "audio", "base", "form"}
    for _, attributes in page.elements:
        assert not [key for key in attributes if key.startswith("on")]
        for key in ("href", "src", "action", "xlink:href"):
            assert (attributes.get(key) or "#").startswith("#")
    assert not re.search(r"url\((?!#(?:computed|inferred)\))|@import|https?://", text)
    assert "default-src 'none'" in text


@pytest.mark.parametrize("name", sample_result.ALL)
def test_structure_for_screen_reader_and_keyboard(pages: dict[str, str], name: str) -> None:
    page = Page(pages[name])
    assert page.headings[0] == 1 and page.headings.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(page.headings, page.headings[1:], strict=False))
    identifiers = Counter(a["id"] for _, a in page.elements if a.get("id"))
    assert max(identifiers.values()) == 1
    for _, attributes in page.elements:
        for target in (attributes.get("aria-labelledby") or "").split():
            assert target in identifiers
        if (attributes.get("href") or "").startswith("#"):
            assert (attributes["href"] or "")[1:] in identifiers
        if "scroll" in (attributes.get("class") or "").split():
            assert attributes.get("tabindex") == "0" and attributes.get("role") == "region"
    charts = [a for tag, a in page.elements if tag == "svg" and a.get("role") == "img"]
    assert charts and all(a.get("aria-label") for a in charts)
    assert page.captions == sum(tag == "table" for tag, _ in page.elements)


def test_text_of_others_stays_text(pages: dict[str, str]) -> None:
    text = pages["hostile"]
    assert "<script" not in text and "alert(&#39;x&#39;)" in text
    assert "{{7*7}}" in text and "49 ]]" not in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e]", text)
    assert 'onload="y"' not in text
    assert "<bdi>" in text


def test_the_first_screen_answers(pages: dict[str, str]) -> None:
    words = Page(pages["improved"]).words()
    first = words[: words.index("The bottleneck, before and after")]
    for answer in (
        "Improved", "4 of 4 goals met", "3.8 × lower (3.4 to 4.3)", "668 ms", "Goal ≤ 1 s", "31 % higher (22 to 41 %) worse", "Confirmed",
        "$0.61 → $0.29", "✓ Kept", "batching", "continuous", "rooftune serve --config configuration.yaml", "--batching dynamic",
        "TPOT p95 is 31 % higher",
    ):  # fmt: skip
        assert answer in first, answer


def test_every_technique_is_there_with_its_reason(pages: dict[str, str]) -> None:
    words = Page(pages["improved"]).words()
    for technique in sample_result.improved().techniques:
        assert technique.title in words and technique.reason in words
    many = Page(pages["many_techniques"]).words()
    assert all(f"Technique number {index}" in many for index in range(40))


def test_partial_and_invalid_are_loud(pages: dict[str, str]) -> None:
    assert "Partial result. interrupted after 141 s" in Page(pages["partial"]).words()
    assert "must not be used for a decision" in Page(pages["invalid"]).words()
    assert 'class="alarm"' not in pages["improved"]


def test_nothing_to_serve_is_offered_unless_it_was_proven(pages: dict[str, str]) -> None:
    for name in ("no_effect", "inconclusive", "partial", "regressed", "invalid"):
        assert "serve --config" not in pages[name], name


def test_reasons_of_what_is_missing_are_shown() -> None:
    result = replace(
        sample_result.improved(),
        quality=None, cost=None, roofs=None, time_split={}, latency={}, runs=[], techniques=[], table={}, goals=[], effects={}, noise={},
        bottleneck={}, missing={"quality": "no text to compare on", "cost": "no price", "roofs": "the probe was skipped"},
    )  # fmt: skip
    words = Page(render_html(result)).words()
    for reason in (
        "no text to compare on",
        "no price",
        "the probe was skipped",
        "No latencies were recorded",
        "No run was finished",
    ):
        assert reason in words


def test_rounds_with_an_invalid_run_do_not_count() -> None:
    result = sample_result.improved()
    assert {run.round for run in result.runs} == set(range(1, 8))
    assert summary.confirming_rounds(result) == 6
    assert summary.strength(result).word == "Confirmed"


def test_fewer_rounds_than_a_confirmation_needs_is_weak() -> None:
    result = sample_result.improved()
    few = replace(result, runs=[run for run in result.runs if (run.round or 0) <= 3])
    assert "Weak" in Page(render_html(few)).words()


def test_a_missing_value_is_never_shown_as_nan(pages: dict[str, str]) -> None:
    for text in pages.values():
        assert not re.search(
            r"\b(?:nan|inf|None)\b", Page(text).words().replace("None: invalid", "").replace("None of 4", "")
        )
