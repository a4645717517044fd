"""The whole loop on a tiny model: killed, resumed, interrupted, resumed, finished. Nothing measured is lost, nothing is left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.model.tiny import Tiny, write_hugging_face

pytestmark = pytest.mark.slow

SPEC = """
model: {model}
baseline: {{techniques: {{batching: dynamic, slots: 2, batch_wait: 0.1, prefix_cache: none, chunked_prefill: false}}}}
slo: {{ttft: 1s, tpot: 200ms}}
goals: {{slo_attainment: ">= 95%", ttft_p95: "<= 1s"}}
workload:
  arrivals: {{process: poisson, rate: auto, load: 1.1}}
  prompts: {{source: "builtin:chat", output_tokens: 16}}
  requests: 24
price: {{amount: 0.10, currency: USD, per: hour}}
budget: {{time: 4min}}
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loop")
    write_hugging_face(folder / "tiny", Tiny(maximum_context=2048))
    path = folder / "tiny.yaml"
    path.write_text(SPEC.format(model=folder / "tiny"))
    return path


def started(spec: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "rooftune.cli.main",
        "optimize",
        str(spec),
        "--out",
        str(out),
        "--json",
        *more,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished_runs(out: Path) -> dict[str, float]:
    """Runs that the journal names, with the time their file was written."""
    journal = out / "journal.jsonl"
    lines = journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []
    events = [json.loads(line) for line in lines]
    return {
        e["key"]: (out / e["value"]["path"] / "run.json").stat().st_mtime
        for e in events
        if e["key"].startswith("run/") and "path" in e["value"]
    }


def wait_for_runs(process: subprocess.Popen[str], out: Path, count: int) -> None:
    deadline = time.monotonic() + 240
    while len(finished_runs(out)) < count:
        if process.poll() is not None:
            raise AssertionError(f"ended early ({process.returncode}): {process.communicate()[1][-2000:]}")
        assert time.monotonic() < deadline, "the loop made no progress"
        time.sleep(0.1)


def servers_of(parent: int) -> list[int]:
    """Processes that serve for a parent, found by the pid that they were given."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if (
            "serve" in words
            and "--parent-pid" in words
            and words[words.index("--parent-pid") + 1] == str(parent)
        ):
            found.append(process.pid)
    return found


def assert_nothing_left(parent: int) -> None:
    deadline = time.monotonic() + 15
    while servers_of(parent) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert servers_of(parent) == []


def test_killed_interrupted_and_resumed_to_the_end(spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = started(spec, out)
    wait_for_runs(first, out, 2)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    assert_nothing_left(first.pid)
    kept = finished_runs(out)

    refused = started(spec, out)
    _, said = refused.communicate(timeout=60)
    assert refused.returncode == 2
    assert "--resume" in said.splitlines()[-1]

    second = started(spec, out, "--resume")
    wait_for_runs(second, out, len(kept) + 3)
    os.kill(second.pid, signal.SIGINT)
    printed, said = second.communicate(timeout=90)
    assert second.returncode == 130, said
    partial = json.loads(printed)
    assert partial["partial"] is True
    assert "Traceback" not in said
    assert_nothing_left(second.pid)
    assert (out / "report.html").exists()
    more = finished_runs(out)
    assert len(more) >= len(kept) + 3

    third = started(spec, out, "--resume")
    printed, said = third.communicate(timeout=600)
    assert third.returncode == 0, said
    assert_nothing_left(third.pid)
    result = json.loads(printed)
    final = finished_runs(out)
    assert {key: final[key] for key in more} == more, "a finished run was measured again"
    assert_sound(result, out)


def assert_sound(result: dict[str, object], out: Path) -> None:
    """The contract of the result, and that its words and its numbers agree."""
    assert result["partial"] is False
    assert result["verdict"] in ("improved", "no effect", "regressed", "inconclusive")
    for key in ("goals", "bottleneck", "techniques", "quality", "cost", "runs", "report"):
        assert key in result
    techniques = result["techniques"]
    assert isinstance(techniques, list)
    assert len(techniques) == 39
    decisions = {"accepted", "rejected", "not_applicable", "inconclusive", "failed", "not_tried"}
    for technique in techniques:
        assert technique["decision"] in decisions
        assert technique["reason"]
        if technique["decision"] == "accepted":
            assert technique["rounds"] >= 6
            assert technique["active"] is not False
    assert Path(str(result["report"])).exists()
    assert json.loads((out / "result.json").read_text())["verdict"] == result["verdict"]
    assert (out / "configuration.yaml").exists()
