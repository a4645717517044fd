"""Roofs: interpolation, the cache, and what is refused. The probes themselves are replaced; no time is asserted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.hardware import roofs as room
from rooftune.hardware.roofs import Bandwidth, Roofs, drift, probe, reprobe

MIB = 1 << 20


def some(quick: bool = False) -> Roofs:
    return Roofs(
        bandwidth=(Bandwidth(MIB, 80e9), Bandwidth(16 * MIB, 20e9), Bandwidth(256 * MIB, 10e9)),
        flops={"f32_fma": 50e9, "f32_mul_add": 40e9, "int8_dot": 90e9},
        threads=2,
        isa="avx2",
        cpu="test",
        measured_at="2026-01-01T00:00:00+00:00",
        quick=quick,
    )


def test_bandwidth_between_and_beyond_the_readings() -> None:
    roofs = some()
    assert roofs.bandwidth_at(1) == 80e9
    assert roofs.bandwidth_at(MIB) == 80e9
    assert roofs.bandwidth_at(4 * MIB) == pytest.approx(50e9)  # halfway in the logarithm of the size
    assert roofs.bandwidth_at(64 * MIB) == pytest.approx(15e9)
    assert roofs.bandwidth_at(1e12) == 10e9


@given(st.floats(1, 1e12))
def test_bandwidth_stays_between_the_readings(size: float) -> None:
    assert 10e9 <= some().bandwidth_at(size) <= 80e9


def test_peaks() -> None:
    assert some().peak() == 90e9
    assert some().peak(("f32_mul_add",)) == 40e9
    assert some().float32_peak() == 50e9
    with pytest.raises(WrongInput, match="no roof was measured for amx"):
        some().peak(("amx",))


def test_json_round_trip() -> None:
    assert Roofs.from_json(json.loads(json.dumps(some().to_json()))) == some()
    assert some().age() > 0


@pytest.mark.parametrize("key", ["bandwidth", "flops", "threads", "isa", "cpu", "measured_at"])
def test_a_missing_field_is_refused(key: str) -> None:
    values = some().to_json()
    del values[key]
    with pytest.raises(WrongInput, match=key):
        Roofs.from_json(values)


def test_impossible_readings_are_refused() -> None:
    values = some().to_json()
    values["bandwidth"].reverse()
    with pytest.raises(WrongInput, match="ascending"):
        Roofs.from_json(values)
    values = some().to_json()
    values["flops"]["f32_fma"] = 0.0
    with pytest.raises(WrongInput, match="above 0"):
        Roofs.from_json(values)


def test_kept_roofs_serve_until_asked_afresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rooftune._native")
    monkeypatch.setenv("ROOFTUNE_CACHE", str(tmp_path))
    calls = []

    def measure(quick: bool, *rest: object) -> Roofs:
        calls.append(quick)
        return some(quick)

    monkeypatch.setattr(room, "_measure", measure)
    assert probe(quick=True).quick
    assert probe(quick=True).quick and calls == [True]
    assert not probe(quick=False).quick and calls == [True, False], (
        "a quick reading does not pass for a full one"
    )
    assert not probe(quick=True).quick and len(calls) == 2, "a full reading serves a quick call"
    assert probe(quick=True, fresh=True).quick and len(calls) == 3
    (file,) = (tmp_path / "roofs").iterdir()
    file.write_text("{")
    assert not probe(quick=False).quick and len(calls) == 4, "a damaged file is measured afresh"


def test_no_place_for_the_cache_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rooftune._native")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROOFTUNE_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(room, "_measure", lambda *a: some())
    with pytest.raises(EnvironmentProblem, match="cannot be kept"):
        probe()


def test_the_real_probes_on_this_machine() -> None:
    pytest.importorskip("rooftune._native")
    reading = reprobe()
    assert reading["bytes_per_second"] > 1e8 and reading["flop_per_second"] > 1e8
    shares = drift(some(), {**reading, "bytes_per_second": some().bandwidth_at(reading["working_set"])})
    assert shares["bandwidth"] == 1.0
    assert shares["flops"] == reading["flop_per_second"] / 50e9
