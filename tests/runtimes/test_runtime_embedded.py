"""The server as a process of its own: started, proven, observed, stopped; it never outlives its parent."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import openai
import pytest

from rooftune.cli.main import main
from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.runtimes.embedded.configuration_file import write_configuration
from rooftune.runtimes.embedded.runtime import EmbeddedRuntime, EmbeddedServer
from tests.server.hosting import wait_for

SMALL: dict[str, Any] = {"weight_kernel": "reference", "pool_tokens": 1024, "slots": 2, "prefix_cache": False}


def alive(pid: int) -> bool:
    """Running, and not merely a zombie that nobody has waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def start_in_a_thread(runtime: EmbeddedRuntime, configuration: dict[str, Any]) -> EmbeddedServer:
    """The thread that starts the server ends at once: the server must not go with it."""
    started: list[EmbeddedServer] = []
    thread = threading.Thread(target=lambda: started.append(runtime.start(configuration)))
    thread.start()
    thread.join(120)
    return started[0]


def test_a_server_from_start_to_stop(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFTUNE_API_KEY", "of-another-server")
    runtime = EmbeddedRuntime(
        str(tiny_model), {"log_folder": str(tmp_path / "logs"), "start_timeout": "2min"}
    )
    server = start_in_a_thread(runtime, SMALL)
    try:
        assert (
            server.started_by_us
            and server.url.startswith("http://127.0.0.1:")
            and server.model == tiny_model.name
        )
        resolved = server.resolved()
        assert resolved is not None and resolved["pid"] == server.pid
        assert resolved["slots"] == 2 and resolved["prefix_cache"] == "none" and resolved["threads"] == 2
        before = server.observe()
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        answer = client.chat.completions.create(
            model=server.model, messages=[{"role": "user", "content": "the answer"}], max_tokens=5, temperature=0,
            extra_body={"ignore_eos": True},
        )  # fmt: skip
        assert answer.usage is not None and answer.usage.completion_tokens == 5
        after = server.observe()
        assert after.counters["generated_tokens"] - before.counters["generated_tokens"] == 5
        assert before.time_ns < after.time_ns <= time.monotonic_ns()
        entries = {entry.switch: entry for entry in server.ledger(before, after)}
        assert entries["weight_kernel"].active is True and (entries["weight_kernel"].moved or 0) > 0
        quiet = {entry.switch: entry for entry in server.ledger(after, server.observe())}
        assert quiet["weight_kernel"].active is None and "did not move" in quiet["weight_kernel"].reason
        steps = server.steps(before.time_ns)
        assert sum(step["decode_rows"] for step in steps) == 4 and server.steps(after.time_ns) == ()
        assert server.reset_prefix_cache() is True
        assert server.healthy()
        assert alive(server.pid)
    finally:
        server.stop()
    assert not alive(server.pid)
    server.stop()
    with pytest.raises(EnvironmentProblem):
        server.observe()
    assert server.log.read_text().startswith("ready: ")


def test_the_server_ends_when_its_parent_is_killed(tiny_model: Path) -> None:
    code = (
        "import sys, time\n"
        "from rooftune.runtimes.embedded.runtime import EmbeddedRuntime\n"
        f"server = EmbeddedRuntime({str(tiny_model)!r}).start({SMALL!r})\n"
        "print(server.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        assert alive(child)
        parent.kill()
        parent.wait(10)
        assert wait_for(lambda: not alive(child), 10)
    finally:
        parent.stdout.close()
        if alive(child):
            os.kill(child, signal.SIGKILL)


def test_the_watch_alone_ends_a_process(tmp_path: Path) -> None:
    """Not the direct child: the kernel's parent-death signal does not reach it, the watch on the process id does."""
    parent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    code = (
        "import sys, time\n"
        "from rooftune.runtimes.embedded.parent import die_with_parent\n"
        f"die_with_parent({parent.pid}, None)\n"
        "print('watching', flush=True)\n"
        "time.sleep(600)\n"
    )
    watcher = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert watcher.stdout is not None and watcher.stdout.readline() == "watching\n"
        assert watcher.poll() is None
        parent.kill()
        parent.wait(10)
        assert watcher.wait(10) == 0
    finally:
        for process in (parent, watcher):
            process.kill()
            process.wait(10)
        watcher.stdout.close()


def test_a_model_that_cannot_be_served(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\0" * 100)
    assert main(["serve", str(broken), "--port", "0"]) == 2
    assert "broken.gguf" in capfd.readouterr().err
    with pytest.raises(WrongInput, match=r"did not start: .*missing\.gguf: no such file"):
        EmbeddedRuntime(str(tmp_path / "missing.gguf"), {"log_folder": str(tmp_path)}).start({})


def test_a_start_that_takes_too_long_leaves_no_process(tiny_model: Path, tmp_path: Path) -> None:
    runtime = EmbeddedRuntime(str(tiny_model), {"log_folder": str(tmp_path), "start_timeout": "200ms"})
    with pytest.raises(EnvironmentProblem, match=r"not ready after 0\.2 s"):
        runtime.start(SMALL)
    mine = [
        entry for entry in Path("/proc").glob("[0-9]*/cmdline") if str(os.getpid()).encode() in _read(entry)
    ]
    assert not [entry for entry in mine if str(tiny_model).encode() in _read(entry)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def test_a_port_in_use_is_told(tiny_model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["serve", str(tiny_model), "--port", str(port)]) == 4
    told = capfd.readouterr().err
    assert told.count("\n") == 1 and f"port {port}" in told and "in use" in told


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], 2, "name a model"),
        (["m", "--set", "slots"], 2, "SWITCH=VALUE"),
        (["m", "--set", "slts=4"], 2, "did you mean 'slots'"),
        (["m", "--config", "missing.yaml"], 2, "no such configuration file"),
        (["m", "--host", "0.0.0.0"], 2, "ROOFTUNE_API_KEY"),
        (["m", "--host", "no-such-host.invalid", "--api-key", "secret-of-mine"], 4, "not known"),
    ],
)
def test_wrong_words_are_one_line(
    words: list[str],
    status: int,
    said: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ROOFTUNE_API_KEY", raising=False)
    assert main(["serve", *words]) == status
    told = capfd.readouterr()
    assert told.err.count("\n") == 1 and said in told.err
    assert "secret-of-mine" not in told.err + told.out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_takes_a_configuration_file_and_ends_in_order(
    tiny_model: Path, tmp_path: Path, number: signal.Signals
) -> None:
    write_configuration(tmp_path / "accepted.yaml", str(tiny_model), {**SMALL, "batching": "static"})
    command = [
        sys.executable,
        "-m",
        "rooftune.cli.main",
        "serve",
        "--config",
        str(tmp_path / "accepted.yaml"),
    ]
    environment = {**os.environ, "ROOFTUNE_API_KEY": "k3y"}
    with subprocess.Popen(
        [*command, "--port", "0", "--set", "slots=3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert (
                line.startswith("ready: ")
                and "rooftune bench http://127.0.0.1:" in line
                and "k3y" not in line
            )
            url = next(word for word in line.split() if word.startswith("http://"))
            answer = openai.OpenAI(base_url=f"{url}/v1", api_key="k3y").get(
                "/../rooftune/config", cast_to=object
            )
            told = json.loads(json.dumps(answer))
            assert told["batching"] == "static" and told["slots"] == 3
            process.send_signal(number)
            assert process.wait(20) == 0
            out, err = process.communicate()
            assert "Traceback" not in err and "k3y" not in out + err
        finally:
            process.kill()
