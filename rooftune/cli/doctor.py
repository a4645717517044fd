"""rooftune doctor: is this machine and installation ready, and what to do where it is not."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

Status = Literal["ok", "warn", "fail"]
_CORE = (
    "numpy",
    "scipy",
    "pydantic",
    "PyYAML",
    "typer",
    "rich",
    "psutil",
    "httptools",
    "prometheus_client",
    "jinja2",
)
_ENGINE = ("torch", "gguf", "safetensors", "tokenizers", "starlette", "uvicorn")
_PORT = 8000
_DISK_NEEDED, _DISK_WANTED = 200e6, 1e9
_MEMORY_WANTED = 2e9


@dataclass(frozen=True, slots=True)
class Check:
    """One check. ``what_to_do`` is set unless the status is ok."""

    name: str
    status: Status
    found: str
    what_to_do: str | None = None


def examine() -> list[Check]:
    """All checks, in the order in which a user would mend things."""
    checks: tuple[Callable[[], Check], ...] = (
        _python, _packages, _native, _engine, _model, _cores, _memory, _steal, _disk, _port, _browser,
    )  # fmt: skip
    return [check() for check in checks]


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> int:
    """Check this machine and installation. Exit status 4 when something that is needed fails."""
    checks = examine()
    failed = [check for check in checks if check.status == "fail"]
    if as_json:
        print(json.dumps({"ok": not failed, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            print(f"{check.status:<5} {check.name:<{width}}  {check.found}")
            if check.what_to_do is not None:
                print(f"      {'':<{width}}  -> {check.what_to_do}")
        print(_summary(checks))
    return 4 if failed else 0


def _summary(checks: list[Check]) -> str:
    failed = [check.name for check in checks if check.status == "fail"]
    warned = [check.name for check in checks if check.status == "warn"]
    if failed:
        return f"Not ready: {', '.join(failed)}."
    return f"Ready; worth a look: {', '.join(warned)}." if warned else "Ready."


def _python() -> Check:
    found = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro} at {sys.executable}"
    return Check("python", "ok", found)


def _versions(names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Installed "name version" of the distributions, and the missing ones."""
    have, missing = [], []
    for name in names:
        try:
            have.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    return have, missing


def _packages() -> Check:
    from rooftune import __version__

    have, missing = _versions(_CORE)
    if missing:
        return Check("packages", "fail", f"missing: {', '.join(missing)}", "run: pip install rooftune")
    return Check("packages", "ok", f"rooftune {__version__}, {', '.join(have)}")


def _native() -> Check:
    from rooftune.errors import EnvironmentProblem
    from rooftune.kernels import native

    try:
        return Check(
            "native extension", "ok", f"{native.isa()} kernels, probes {', '.join(native.supported_kinds())}"
        )
    except EnvironmentProblem as problem:
        return Check(
            "native extension", "fail", str(problem), "build it with `make native`, or install a wheel"
        )


def _engine() -> Check:
    have, missing = _versions(_ENGINE)
    if missing:
        return Check(
            "engine",
            "warn",
            f"missing: {', '.join(missing)}; servers of others can be driven, models cannot be served here",
            "run: pip install 'rooftune[engine]'",
        )
    return Check("engine", "ok", ", ".join(have))


def _model() -> Check:
    if importlib.util.find_spec("numpy") is None:
        return Check(
            "sample model", "warn", "cannot be looked for without numpy", "run: pip install rooftune"
        )
    from rooftune.engine.model.catalogue import PACKAGED, cache_folder, cached_path, is_pulled

    lacking = [model.name for model in PACKAGED.values() if not is_pulled(model)]
    if lacking:
        name = lacking[0]
        return Check(
            "sample model", "warn", f"{name} is not in {cache_folder()} yet", f"rooftune models pull {name}"
        )
    return Check("sample model", "ok", ", ".join(str(cached_path(model)) for model in PACKAGED.values()))


def _cores() -> Check:
    from rooftune.hardware.machine import machine

    here = machine()
    found = f"{here.threads} threads of {here.cpu}"
    if here.flags:
        found += f" ({', '.join(here.flags)})"
    if here.quota is not None and here.quota < here.threads:
        return Check(
            "processor", "warn", f"{found}, but a quota of {here.quota:g}", "set threads to the quota"
        )
    if here.threads < 2:
        return Check(
            "processor", "warn", found, "the client and the server share one core: measure with two or more"
        )
    return Check("processor", "ok", found)


def _memory() -> Check:
    from rooftune.hardware.machine import machine

    here = machine()
    found = f"{here.memory_available / 1e9:.1f} of {here.memory / 1e9:.1f} GB free"
    if here.memory_available < _MEMORY_WANTED:
        return Check("memory", "warn", found, "free some: two servers of the sample model take about 2 GB")
    return Check("memory", "ok", found)


def _steal() -> Check:
    from rooftune.hardware.machine import steal_share

    share = steal_share(0.2)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    busy = "" if load is None else f", load {load:.1f}"
    if load is not None and load > (os.cpu_count() or 1):
        return Check(
            "neighbours",
            "warn",
            f"load {load:.1f} on {os.cpu_count()} processors",
            "let other work finish first",
        )
    if share is None:
        return Check("neighbours", "ok", f"stolen processor time is not told here{busy}")
    if share > 0.05:
        return Check(
            "neighbours",
            "warn",
            f"{share:.0%} of processor time is stolen{busy}",
            "measure at a quieter time",
        )
    return Check("neighbours", "ok", f"{share:.0%} of processor time is stolen{busy}")


def _disk() -> Check:
    from rooftune.engine.model.catalogue import cache_folder

    places = {str(Path.cwd()): Path.cwd(), str(cache_folder()): _existing(cache_folder())}
    places[tempfile.gettempdir()] = Path(tempfile.gettempdir())
    free = {name: shutil.disk_usage(place).free for name, place in places.items()}
    unwritable = [name for name, place in places.items() if not os.access(place, os.W_OK)]
    found = ", ".join(f"{value / 1e9:.1f} GB in {name}" for name, value in free.items())
    if unwritable:
        return Check(
            "disk",
            "fail",
            f"cannot write to {', '.join(unwritable)}",
            "give write access, or set ROOFTUNE_CACHE",
        )
    least = min(free, key=lambda name: free[name])
    if free[least] < _DISK_NEEDED:
        return Check("disk", "fail", found, f"free at least {_DISK_NEEDED / 1e6:.0f} MB in {least}")
    if free[least] < _DISK_WANTED:
        return Check(
            "disk",
            "warn",
            found,
            f"an optimization keeps its runs: free {_DISK_WANTED / 1e9:.0f} GB in {least}",
        )
    return Check("disk", "ok", found)


def _existing(folder: Path) -> Path:
    """The folder, or its nearest parent that exists."""
    while not folder.exists():
        folder = folder.parent
    return folder


def _port() -> Check:
    try:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
    except OSError as problem:
        return Check(
            "ports", "fail", f"no port of 127.0.0.1 can be opened ({problem.strerror})", "allow local sockets"
        )
    try:
        with socket.socket() as usual:
            usual.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            usual.bind(("127.0.0.1", _PORT))
    except OSError:
        return Check("ports", "warn", f"port {_PORT} is in use", "rooftune serve needs another: --port 8001")
    return Check("ports", "ok", f"127.0.0.1 can be listened on, {_PORT} is free")


def _browser() -> Check:
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        path = shutil.which(name)
        if path is not None:
            return Check("chromium", "ok", f"{path} (only the tests of the report use it)")
    return Check("chromium", "ok", "none found; reports open in any browser, only their tests need it")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="doctor")(doctor)
