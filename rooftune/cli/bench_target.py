"""What `rooftune bench TARGET` stands for: a URL, a spec file, or a model that is served for the measurement."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.measure.target import Target, address_of, resolve_target
from rooftune.progress import Progress
from rooftune.spec import Spec, load_spec, parse_spec

if TYPE_CHECKING:
    from rooftune.runtimes.contract import Server

_HOST_PORT = re.compile(r"^(localhost|\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):\d{1,5}(/.*)?$")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Open:
    """A target that answers. ``server`` None: it is loaded, but cannot be observed (``note`` says why)."""

    target: Target
    server: Server | None
    spec: Spec | None
    note: str | None = None

    @property
    def on_this_machine(self) -> bool:
        return address_of(self.target.url).host in _LOOPBACK


def is_url(text: str) -> bool:
    return text.startswith(("http://", "https://")) or bool(_HOST_PORT.match(text))


def read_spec(text: str) -> Spec | None:
    """The spec where the target names a spec file, else None."""
    return load_spec(text) if Path(text).suffix.lower() in (".yaml", ".yml") else None


@contextlib.contextmanager
def opened(text: str, wanted: Target, spec: Spec | None, progress: Progress) -> Iterator[Open]:
    """The target, reachable; a server that was started for it is stopped at the end.

    ``wanted`` carries model, headers, extra body and key. Raises WrongInput or EnvironmentProblem.
    """
    if spec is None and is_url(text):
        yield _at_url(replace(wanted, url=text))
        return
    if spec is None and wanted.model:
        raise WrongInput("--model names a model at a URL; here the target itself is the model")
    from rooftune.runtimes.registry import runtime_for

    stated = spec or _spec_of({"model": text})
    runtime = runtime_for(stated)
    configuration = {**runtime.defaults(), **stated.baseline.techniques}
    runtime.check(configuration)
    if runtime.name != "url":
        progress.say(f"starting {stated.model} …")
    server = runtime.start(configuration)
    try:
        key_env = stated.runtime.options.get("api_key_env") if runtime.name == "url" else None
        target = replace(
            wanted,
            url=server.url,
            model=server.model,
            api_key_env=wanted.api_key_env or (str(key_env) if key_env else None),
        )
        yield Open(resolve_target(target), server, spec)
    finally:
        server.stop()


def _at_url(wanted: Target) -> Open:
    target = resolve_target(wanted)
    options: dict[str, Any] = {"base_url": _base(target.url), "model": target.model}
    if target.api_key_env:
        options["api_key_env"] = target.api_key_env
    try:
        from rooftune.runtimes.registry import runtime_for

        runtime = runtime_for(
            _spec_of({"model": target.model, "runtime": {"name": "url", "options": options}})
        )
        return Open(target, runtime.start({}), None)
    except (WrongInput, EnvironmentProblem) as problem:
        return Open(target, None, None, f"the server cannot be observed: {problem}")


def _base(url: str) -> str:
    address = address_of(url)
    return f"{address.scheme}://{address.host_header}{address.base}"


def _spec_of(raw: dict[str, Any]) -> Spec:
    """A spec around a bare target; its workload is not used."""
    return parse_spec({"workload": {"arrivals": {"process": "concurrency", "users": 1}}, **raw}, "bench")
