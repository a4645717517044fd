from __future__ import annotations

from dataclasses import replace

import pytest

from rooftune.errors import WrongInput
from rooftune.hardware.catalogue import DEVICES, device
from rooftune.hardware.machine import fingerprint, machine, steal_share, usable_threads


def test_this_machine_is_described() -> None:
    here = machine()
    assert here.threads == usable_threads() >= 1
    assert 0 < here.memory_available <= here.memory
    assert here.cpu and here.system
    share = steal_share(0.05)
    assert share is None or 0.0 <= share <= 1.0


def test_the_fingerprint_tells_machines_apart_and_ignores_what_changes_by_itself() -> None:
    here = machine()
    assert fingerprint(here) == fingerprint(replace(here, memory_available=1))
    assert fingerprint(here) != fingerprint(replace(here, threads=here.threads + 1))
    assert fingerprint(here, "avx2") != fingerprint(here, "portable")


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("h100", "H100-SXM-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM-80GB"),
        ("a100", "A100-SXM-80GB"),
        ("nvidia geforce rtx 4090", "RTX-4090"),
        ("AMD Instinct MI300X", "MI300X"),
    ],
)
def test_devices_by_the_names_people_use(asked: str, name: str) -> None:
    assert device(asked).name == name


def test_an_unknown_device_names_the_nearest() -> None:
    with pytest.raises(WrongInput, match="did you mean 'L40S'"):
        device("L40X")


def test_ridges_agree_with_published_ones() -> None:
    """FLOP per byte in bf16: A100 153, H100 295, H200 206, RTX 4090 164 (project notes, section 3.2)."""
    for name, ridge in (("A100", 153), ("H100", 295), ("H200", 206), ("RTX-4090", 164)):
        assert device(name).ridge() == pytest.approx(ridge, rel=0.01)


def test_every_entry_has_a_source_and_sane_numbers() -> None:
    for entry in DEVICES:
        assert entry.evidence == "datasheet" and entry.source
        assert 10e9 < entry.bytes_per_second < 20e12
        assert all(1e11 < value < 1e17 for value in entry.flops.values())
    assert len({entry.name for entry in DEVICES}) == len(DEVICES)
