from __future__ import annotations

import json
from pathlib import Path

import pytest

from rooftune.cli.main import main
from rooftune.diagnose.planted import draw
from rooftune.store.run_files import save_run


def test_a_saved_run_is_diagnosed_in_json_and_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save_run(draw("launch_overhead", 8).run(), tmp_path / "run")
    assert main(["diagnose", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["primary"] == "launch_overhead"
    assert {"primary", "findings", "missing", "best_reading"} <= found.keys()
    for finding in found["findings"]:
        assert {"cause", "status", "share", "confidence", "evidence"} <= finding.keys()
    assert main(["diagnose", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "primary: launch_overhead" in said and "decode step:" in said


def test_what_is_no_run_is_one_line_and_exit_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(tmp_path / "nothing")]) == 2
    assert main(["diagnose", str(tmp_path)]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 2 and all(line.startswith("rooftune: ") for line in lines)
