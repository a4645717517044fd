"""Starts the embedded engine as a server in its own process, and never leaves one behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rooftune.engine.contracts import EngineConfig
from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.runtimes.contract import Observation
from rooftune.runtimes.embedded.missing import need_engine_packages
from rooftune.runtimes.embedded.server import HttpServer
from rooftune.runtimes.embedded.switches import SWITCHES, defaults, resolve
from rooftune.runtimes.http import HttpBase
from rooftune.spec import Configuration, Setting, parse_quantity
from rooftune.spec.nearest import nearest

START_TIMEOUT = 600.0
"""Seconds until a server must answer; the first start of a packaged model may have to fetch it."""
_READY = re.compile(r"^ready: (?P<model>.*) at (?P<url>http://\S+)", re.MULTILINE)
_STOP_TIMEOUT = 8.0
"""Seconds between SIGTERM, after which the server lets running answers end, and SIGKILL."""


@dataclass(frozen=True, slots=True)
class Options:
    """log_folder: where servers write their logs (default: a temporary file that a clean stop removes)."""

    start_timeout: float = START_TIMEOUT
    log_folder: Path | None = None


def read_options(raw: Mapping[str, Any]) -> Options:
    """Options of a spec's runtime. Raises WrongInput."""
    known = ("start_timeout", "log_folder")
    for name in raw:
        if name not in known:
            raise WrongInput(f"runtime.options: unknown key '{name}'{nearest(str(name), known)}")
    asked = raw.get("start_timeout")
    try:
        timeout = START_TIMEOUT if asked is None else parse_quantity(asked, "time")
    except ValueError as problem:
        raise WrongInput(f"runtime.options.start_timeout: {problem}") from None
    if timeout <= 0:
        raise WrongInput("runtime.options.start_timeout must be above 0")
    folder = raw.get("log_folder")
    return Options(timeout, None if folder is None else Path(str(folder)))


class EmbeddedServer(HttpServer):
    """A server process of our own."""

    def __init__(
        self, url: str, model: str, process: subprocess.Popen[bytes], log: Path, keep_log: bool
    ) -> None:
        super().__init__(url, model, started_by_us=True)
        self.process = process
        self.log = log
        self._keep_log = keep_log

    @property
    def pid(self) -> int:
        return self.process.pid

    def observe(self) -> Observation:
        try:
            return super().observe()
        except EnvironmentProblem:
            if self.process.poll() is None:
                raise
            raise EnvironmentProblem(
                f"the server died (exit status {self.process.returncode}): {last_reason(self.log)}"
            ) from None

    def stop(self) -> None:
        died = self.process.poll() is not None
        end_process(self.process)
        if not self._keep_log and not died:
            self.log.unlink(missing_ok=True)


class EmbeddedRuntime:
    """Implements ``Runtime`` for ``rooftune serve``."""

    name = "embedded"

    def __init__(self, model: str, options: Mapping[str, Any] | None = None) -> None:
        self.model = model
        self.options = read_options(options or {})

    def switches(self) -> dict[str, str]:
        return {name: switch.help for name, switch in SWITCHES.items()}

    def defaults(self) -> Configuration:
        return defaults()

    def check(self, configuration: Configuration) -> None:
        resolve(configuration)

    def start(self, configuration: Configuration) -> EmbeddedServer:
        """A server that answers, with the configuration proven to be the one asked for.

        Raises WrongInput for a model or configuration that cannot be served, EnvironmentProblem for any other
        failure; the process is ended in every such case.
        """
        config = resolve(configuration)
        need_engine_packages()
        log = self._new_log()
        command = [sys.executable, "-m", "rooftune.cli.main", "serve", self.model, "--host", "127.0.0.1"]
        command += ["--port", "0", "--parent-pid", str(os.getpid())]
        for name in configuration:
            command += ["--set", f"{name}={_word(asdict(config)[name])}"]
        # A session of its own: Ctrl+C reaches the caller, who stops the server in order. The server listens on
        # loopback only, so a key that the user's environment holds for other servers is not for it.
        environment = {name: value for name, value in os.environ.items() if name != "ROOFTUNE_API_KEY"}
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        try:
            url, model = self._wait_until_ready(process, log)
            _check_resolved(url, configuration, config)
        except BaseException as problem:
            end_process(process)
            if self.options.log_folder is None and not isinstance(problem, EnvironmentProblem):
                log.unlink(missing_ok=True)
            raise
        return EmbeddedServer(url, model, process, log, self.options.log_folder is not None)

    def _new_log(self) -> Path:
        try:
            if self.options.log_folder is not None:
                self.options.log_folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(".log", "rooftune-serve-", self.options.log_folder)
        except OSError as problem:
            raise EnvironmentProblem(
                f"cannot write a server log ({problem.strerror}); check log_folder"
            ) from None
        os.close(handle)
        return Path(name)

    def _wait_until_ready(self, process: subprocess.Popen[bytes], log: Path) -> tuple[str, str]:
        deadline = time.monotonic() + self.options.start_timeout
        while True:
            code = process.poll()
            ready = _READY.search(log.read_text(encoding="utf-8", errors="replace"))
            if code is not None:
                # Exit status 2 is the user's to mend, whoever started the server.
                kind = WrongInput if code == WrongInput.exit_status else EnvironmentProblem
                where = "" if kind is WrongInput else f" (log: {log})"
                raise kind(f"the server did not start: {last_reason(log)}{where}")
            if ready is not None:
                return ready["url"], ready["model"]
            if time.monotonic() > deadline:
                raise EnvironmentProblem(
                    f"the server was not ready after {self.options.start_timeout:g} s: {last_reason(log)}"
                )
            time.sleep(0.05)


def _check_resolved(url: str, configuration: Configuration, config: EngineConfig) -> None:
    """A server that does not run what was asked must never be measured as if it did."""
    told = HttpBase(url).get_json("/rooftune/config")
    wanted = asdict(config)
    for name in configuration:
        if told.get(name) != wanted[name]:
            raise EnvironmentProblem(
                f"the server runs with {name}={told.get(name)!r}, but {wanted[name]!r} was asked for"
            )


def _word(value: Setting) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def last_reason(log: Path) -> str:
    """The last line that a server wrote, without our own prefix; its log's path where it wrote none."""
    try:
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        lines = []
    said = [line for line in lines if line]
    return said[-1].removeprefix("rooftune: ") if said else f"it said nothing (log: {log})"


def end_process(process: subprocess.Popen[bytes]) -> None:
    """End our own child by its process id: in order first, by force after a while. Returns when it is gone."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
