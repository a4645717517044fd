"""Console, Markdown and the exported configuration."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
import sample_result
import yaml

from rooftune.report.console import print_result
from rooftune.report.exported import export_configuration
from rooftune.report.markdown import to_markdown
from rooftune.report.result_json import load_result
from rooftune.report.write import write_reports


def console(name: str) -> str:
    stream = io.StringIO()
    print_result(sample_result.ALL[name](), stream, "out/configuration.yaml")
    return stream.getvalue()


@pytest.mark.parametrize("name", sample_result.ALL)
def test_piped_console_has_no_escapes_and_a_fixed_width(name: str) -> None:
    text = console(name)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", text)
    assert max(map(len, text.splitlines())) <= 110


def test_console_says_verdict_goals_reasons_and_next_command() -> None:
    text = " ".join(console("improved").split())
    assert "✓ Improved Continuous batching with a prefix cache" in text
    assert "TTFT p95 ≤ 1 s 2.40 s 668 ms 3.8 × lower (3.4 to 4.3) ✓ met" in text
    assert "✗ rejected Chunked prefill TPOT p95 rose by 8 %" in text
    assert "rooftune serve --config out/configuration.yaml" in text


def test_console_offers_nothing_to_serve_when_nothing_was_proven() -> None:
    assert "serve --config" not in console("inconclusive")
    assert "Partial result: interrupted after 141 s" in console("partial")


def test_console_takes_markup_of_others_as_text() -> None:
    assert "[bold red]" in console("hostile")


def test_markdown_of_others_never_becomes_markup() -> None:
    text = to_markdown(sample_result.hostile())
    assert "<" not in text
    assert not [line for line in text.splitlines() if line.startswith(("# heading", "model:"))]
    for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
        columns = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
        assert len(columns) == 1


def test_markdown_marks_partial_and_invalid() -> None:
    assert "**Partial result.**" in to_markdown(sample_result.partial())
    assert "must not be used" in to_markdown(sample_result.invalid())


@pytest.mark.parametrize("name", sample_result.ALL)
def test_exported_configuration_is_what_serve_reads(name: str) -> None:
    result = sample_result.ALL[name]()
    text = export_configuration(result)
    document = yaml.safe_load(text)
    assert list(document) == ["model", "runtime", "techniques"]
    assert document["model"] == result.spec["model"]
    assert document["techniques"] == result.final_configuration
    assert f"# Verdict: {result.verdict}" in text
    assert ("not proven" in text) == (result.verdict != "improved")


def test_all_reports_are_written_and_name_the_page(tmp_path: Path) -> None:
    written = write_reports(sample_result.improved(), tmp_path / "out")
    names = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert names == ["configuration.yaml", "report.html", "report.md", "result.json"]
    assert written.report == str(tmp_path / "out" / "report.html")
    assert load_result(tmp_path / "out").report == written.report
