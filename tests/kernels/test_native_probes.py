"""The probes of the machine and the choice of an instruction set."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.kernels import native


def run(code: str, isa: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, ROOFTUNE_ISA=isa)
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


def test_every_supported_kind_has_a_rate() -> None:
    for kind in native.supported_kinds():
        assert native.peak_flops(kind, threads=1, seconds=0.01) > 1e7


def test_bandwidth_of_any_size() -> None:
    for size in (1024, 5000, 1 << 20):
        assert native.read_bandwidth(size, threads=1, seconds=0.01) > 1e6


def test_wrong_input_has_a_reason() -> None:
    with pytest.raises(WrongInput, match="no probe of kind 'fp128'"):
        native.peak_flops("fp128", 1, 0.01)
    with pytest.raises(WrongInput, match="threads"):
        native.peak_flops(native.supported_kinds()[0], 0, 0.01)
    with pytest.raises(WrongInput, match="1 KiB"):
        native.read_bandwidth(1000, 1, 0.01)


def test_portable_set_says_what_it_lacks() -> None:
    result = run(
        "from rooftune.kernels import native as n\n"
        "print(n.isa(), *n.supported_kinds())\n"
        "try: n.peak_flops('int8_dot', 1, 0.01)\n"
        "except Exception as e: print(type(e).__name__, e)\n",
        "portable",
    )
    assert result.stdout.splitlines() == [
        "portable f32_mul_add",
        "WrongInput the instruction set in use (portable) has no int8_dot",
    ]
    assert result.stderr == ""


def test_unknown_set_is_refused() -> None:
    result = run(
        "from rooftune.kernels import native as n\n"
        "try: n.isa()\n"
        "except Exception as e: print(type(e).__name__, e)\n",
        "avx9000",
    )
    assert "EnvironmentProblem ROOFTUNE_ISA is 'avx9000'" in result.stdout


def test_missing_extension_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import rooftune

    monkeypatch.setitem(sys.modules, "rooftune._native", None)
    monkeypatch.delattr(rooftune, "_native", raising=False)
    with pytest.raises(EnvironmentProblem, match="make native"):
        native.isa()


def test_native_needs_no_torch() -> None:
    code = "import sys, rooftune.kernels.native as n; n.isa(); print('torch' in sys.modules)"
    assert run(code, "").stdout.strip() == "False"
