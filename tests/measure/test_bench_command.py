"""`rooftune bench` as a user calls it: exit status, JSON keys, words, and one line for each mistake."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rooftune.cli.main import main
from rooftune.cli.progress import console_progress, duration
from rooftune.measure.null_server import Behaviour, NullServer, running
from rooftune.store.run_files import load_run


@pytest.fixture(scope="module")
def server() -> Iterator[NullServer]:
    with running(Behaviour(ttft=0.005, itl=0.001, tokens=4)) as state:
        yield state


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["bench", *words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_json_has_the_keys_that_checks_read(
    server: NullServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "run"
    status, out, _ = call(
        capsys, server.url, "--rate", "60/s", "--requests", "60", "--output-tokens", "4", "--seed", "7",
        "--goal", "ttft_p95<=30s", "--slo", "ttft<=30s", "--price", "1.5", "--out", str(place), "--json",
    )  # fmt: skip
    told: dict[str, Any] = json.loads(out)
    assert {"valid", "gates", "metrics", "run"} <= set(told)
    assert told["run"] == str(place)
    assert all({"name", "ok", "value", "limit"} <= set(gate) for gate in told["gates"])
    assert set(told["metrics"]["ttft_p95"]) == {"value", "unit", "low", "high", "reason"}
    assert told["metrics"]["ttft_p99"]["value"] is None and "299" in told["metrics"]["ttft_p99"]["reason"]
    assert told["goals"][0]["met"] is True
    run = load_run(place)
    assert run.valid == told["valid"] and run.workload["seed"] == 7 and len(run.records) == 60
    assert status == (0 if run.valid else 3)


def test_an_invalid_run_shows_its_best_reading_and_exits_3(
    server: NullServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = call(
        capsys, server.url, "--concurrency", "4", "--requests", "12", "--goal", "ttft_p99<=400ms",
        "--out", str(tmp_path / "r"),
    )  # fmt: skip
    assert status == 3
    assert "time to first token" in out and "NOT VALID" in out and "--requests 299" in out
    assert err.strip().splitlines()[-1].startswith("rooftune: the run is not valid")


def test_synthetic_lengths_and_duration(
    server: NullServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = call(
        capsys, server.url, "--concurrency", "2", "--duration", "500ms", "--input-tokens", "50",
        "--output-tokens", "6", "--header", "X-Test: yes", "--extra-body", '{"top_p": 0.5}', "--json",
        "--out", str(tmp_path / "r"),
    )  # fmt: skip
    told = json.loads(out)
    assert told["workload"]["source"] == "synthetic" and told["workload"]["exact_lengths"] is True
    # Prepared for 20 answers a second and user; this server is faster, which is said.
    assert len(load_run(tmp_path / "r").records) == told["workload"]["requests"] == 20
    assert any("20 prepared requests" in note for note in told["notes"])
    assert server.requests[-1]["top_p"] == 0.5 and server.requests[-1]["max_tokens"] == 6
    assert server.headers[-1]["x-test"] == "yes"


def test_a_spec_file_is_a_target(
    server: NullServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "s.yaml"
    spec.write_text(
        f"model: 'null'\nruntime: {{name: url, options: {{base_url: '{server.url}'}}}}\nslo: {{ttft: 10s}}\n"
        "goals: {slo_attainment: '>= 50%'}\n"
        "workload: {arrivals: {process: constant, rate: 100/s}, prompts: {output_tokens: 4}, requests: 20}\n"
    )
    _, out, _ = call(capsys, str(spec), "--json", "--out", str(tmp_path / "r"))
    told = json.loads(out)
    assert told["workload"]["process"] == "constant" and told["workload"]["requests"] == 20
    assert told["goals"][0]["metric"] == "slo_attainment" and told["goals"][0]["met"] is True


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--rate", "4"], "a rate such as 4/s"),
        (["--rate", "4/s", "--concurrency", "2"], "exclude each other"),
        (["--requests", "5", "--duration", "3s"], "exclude each other"),
        (["--duration", "3"], "no unit|wrong dimension"),
        (["--duration", "0"], "above 0"),
        (["--goal", "ttft_p95"], "METRIC<=VALUE"),
        (["--goal", "tfft_p95<=1s"], "did you mean"),
        (["--goal", "goodput>=1/s"], "--slo"),
        (["--goal", "cost_per_million_output_tokens<=1"], "--price"),
        (["--slo", "ttft=3s"], "ttft<=400ms"),
        (["--header", "broken"], "NAME:VALUE"),
        (["--extra-body", "{"], "not JSON"),
        (["--extra-body", "[]"], "JSON object"),
        (["--extra-body", '{"stream": false}'], "may not set 'stream'"),
        (["--prompts", "builtin:chta"], "did you mean"),
        (["--prompts", "jsonl:/nowhere"], "no such file"),
        (["--prompts", "builtin:chat", "--input-tokens", "5"], "does not go with"),
        (["--think", "1s", "--rate", "4/s"], "--think"),
        (["--arrivals", "poisson"], "--rate"),
        (["--text", "some"], "full, hash or off"),
        (["--model", "other"], "it serves: null"),
        (["--api-key-env", "NO_SUCH_VARIABLE_HERE"], "NO_SUCH_VARIABLE_HERE"),
    ],
)
def test_wrong_input_is_one_line_and_exit_2(
    server: NullServer, capsys: pytest.CaptureFixture[str], words: list[str], match: str
) -> None:
    import re

    status, out, err = call(capsys, server.url, *words)
    assert status == 2, err
    lines = [line for line in err.strip().splitlines() if line.startswith("rooftune:")]
    assert len(lines) == 1 and re.search(match, lines[0]), err
    assert "Traceback" not in err and out == ""


def test_an_unreachable_server_is_exit_4(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, "http://127.0.0.1:9")
    assert status == 4 and out == "" and "cannot be reached" in err


def test_a_folder_with_other_things_is_refused_before_the_load(
    server: NullServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_text("")
    sent = len(server.requests)
    status, _, err = call(capsys, server.url, "--out", str(tmp_path))
    assert status == 2 and "not a run" in err and len(server.requests) == sent


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_progress_tells_stages_and_facts(stream: io.StringIO) -> None:
    progress = console_progress(stream)
    progress.begin("loading", 90.0)
    progress.advance(0.5)
    progress.say("a fact [not markup]")
    progress.begin("inner")
    progress.end()
    progress.end()
    progress.end()
    told = stream.getvalue()
    assert "a fact [not markup]" in told and "loading" in told
    assert "1 min 30 s" in told


def test_durations_are_short() -> None:
    assert [duration(s) for s in (0.2, 59, 61, 3700)] == ["0 s", "59 s", "1 min 01 s", "1 h 01 min"]
