"""rooftune roofs and rooftune doctor, as they are called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rooftune.cli import doctor as doctor_room
from rooftune.cli.main import main
from rooftune.hardware import roofs as roofs_room
from rooftune.hardware.roofs import Bandwidth, Roofs


@pytest.fixture(autouse=True)
def _kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOFTUNE_CACHE", str(tmp_path / "cache"))


def test_doctor_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert status == (0 if told["ok"] else 4)
    names = [check["name"] for check in told["checks"]]
    assert {
        "python",
        "packages",
        "native extension",
        "engine",
        "sample model",
        "memory",
        "disk",
        "ports",
    } <= set(names)
    for check in told["checks"]:
        assert (check["what_to_do"] is None) == (check["status"] == "ok"), check


def test_doctor_exits_4_when_something_needed_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor_room, "_CORE", ("a-package-that-does-not-exist",))
    assert main(["doctor"]) == 4
    out = capsys.readouterr().out
    assert "fail  packages" in out and "-> run: pip install rooftune" in out
    assert "Not ready: packages" in out


def test_doctor_fails_without_the_native_extension(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rooftune.errors import EnvironmentProblem
    from rooftune.kernels import native

    def missing() -> str:
        raise EnvironmentProblem("cannot be loaded")

    monkeypatch.setattr(native, "isa", missing)
    assert main(["doctor"]) == 4
    assert "make native" in capsys.readouterr().out


def test_roofs_in_words_and_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rooftune._native")
    made = Roofs(
        bandwidth=(Bandwidth(1 << 20, 50e9), Bandwidth(1 << 26, 10e9)),
        flops={"f32_fma": 50e9},
        threads=2,
        isa="avx2",
        cpu="a processor",
        measured_at="2026-01-01T00:00:00+00:00",
    )
    monkeypatch.setattr(roofs_room, "_measure", lambda *a: made)
    assert main(["roofs"]) == 0
    words = capsys.readouterr().out
    assert "a processor, 2 threads, avx2" in words and "days ago" in words and "10.0 GB/s" in words
    assert "9.66 ms a token for one sequence" in words
    assert main(["roofs", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert Roofs.from_json(told) == made
    assert told["packaged_model"]["decode_step_seconds"] == pytest.approx((96_576_768 + 46_080) / 10e9)
