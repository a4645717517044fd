"""Bad input is one clear line and the exit status of the design; nothing is half-written."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

GOOD = """
model: {model}
slo: {{ttft: 1s}}
goals: {{slo_attainment: ">= 95%"}}
workload: {{arrivals: {{process: poisson, rate: 2/s}}}}
"""


def rooftune(*words: str, cwd: Path | None = None, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rooftune.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, cwd=cwd, check=False)


def assert_one_line(done: subprocess.CompletedProcess[str], status: int, *parts: str) -> None:
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    last = [line for line in done.stderr.splitlines() if line.startswith("rooftune: ")]
    assert len(last) == 1, done.stderr
    for part in parts:
        assert part in last[0]


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(GOOD.format(model="smollm2-135m"))
    return path


def changed(spec: Path, old: str, new: str) -> Path:
    spec.write_text(spec.read_text().replace(old, new))
    return spec


def optimize(spec: Path, tmp_path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    done = rooftune("optimize", str(spec), "--out", str(tmp_path / "out"), *more)
    assert not (tmp_path / "out").exists() or done.returncode == 0, "something was written"
    return done


def test_unknown_key_names_the_nearest(spec: Path, tmp_path: Path) -> None:
    assert_one_line(optimize(changed(spec, "slo:", "slos:"), tmp_path), 2, "slos", "did you mean 'slo'?")


def test_wrong_dimension(spec: Path, tmp_path: Path) -> None:
    assert_one_line(optimize(changed(spec, "2/s", "2ms"), tmp_path), 2, "2ms", "rate")


def test_unknown_switch_of_the_baseline(spec: Path, tmp_path: Path) -> None:
    spec.write_text(spec.read_text() + "baseline: {techniques: {slot: 4}}\n")
    assert_one_line(optimize(spec, tmp_path), 2, "slot", "slots")


def test_missing_model(spec: Path, tmp_path: Path) -> None:
    assert_one_line(optimize(changed(spec, "smollm2-135m", "smollm3-135m"), tmp_path), 2, "smollm3-135m")


def test_truncated_gguf(spec: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF\x03\x00\x00\x00" + b"\x00" * 40)
    assert_one_line(
        optimize(changed(spec, "smollm2-135m", str(tmp_path / "broken.gguf")), tmp_path), 2, "broken.gguf"
    )


def test_missing_spec_file(tmp_path: Path) -> None:
    assert_one_line(rooftune("optimize", str(tmp_path / "none.yaml")), 2, "none.yaml")


def test_no_leave_to_restart(spec: Path, tmp_path: Path) -> None:
    spec.write_text(spec.read_text() + "allow: [load]\n")
    assert_one_line(optimize(spec, tmp_path), 2, "restart")


@pytest.mark.model
def test_goal_below_the_roof_prints_the_roof(spec: Path, tmp_path: Path) -> None:
    changed(spec, '{slo_attainment: ">= 95%"}', '{tpot_p50: "<= 10us"}')
    assert_one_line(optimize(spec, tmp_path), 2, "tpot_p50", "roof", "MB", "GB/s")


def test_out_is_a_file(spec: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    done = rooftune("optimize", str(spec), "--out", str(tmp_path / "file"))
    assert done.returncode in (2, 4)
    assert (tmp_path / "file").read_text() == "mine"


def test_resume_needs_a_folder(spec: Path) -> None:
    assert_one_line(rooftune("optimize", str(spec), "--resume"), 2, "--out")


def test_plan_does_nothing(spec: Path, tmp_path: Path) -> None:
    done = optimize(spec, tmp_path, "--plan")
    assert done.returncode == 0, done.stderr
    assert "nothing is done" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["spec.yaml"]


@pytest.mark.parametrize(
    "words", [("bnch",), ("optimize",), ("optimize", "x.yaml", "--jso"), ("bench", "--rate")]
)
def test_usage(words: tuple[str, ...]) -> None:
    assert_one_line(rooftune(*words), 2)


def test_unreachable_url() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert_one_line(rooftune("bench", url, "--rate", "2/s", "--requests", "2"), 4, url)


@pytest.mark.model
def test_port_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert_one_line(rooftune("serve", "smollm2-135m", "--port", port), 4, port)


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from rooftune.cli.main import main; main(['--help']); "
        "print([m for m in ('torch', 'typer', 'pydantic', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")


def test_core_commands_need_no_torch() -> None:
    """The core install has no torch: everything but the engine must import without it."""
    code = (
        "import sys\n"
        "class Blocker:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'transformers'): raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Blocker())\n"
        "import rooftune.api, rooftune.cli.bench, rooftune.cli.diagnose, rooftune.cli.techniques, rooftune.cli.roofs\n"
        "import rooftune.cli.doctor, rooftune.cli.optimize, rooftune.runtimes.url.runtime"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
