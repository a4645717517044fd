"""The accepted configuration as a file: ``{model, runtime, techniques: {switch: value}}`` in YAML."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.spec import Configuration
from rooftune.spec.nearest import nearest

_KEYS = ("model", "runtime", "techniques")
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class ConfigurationFile:
    """``model`` None where the file leaves it to the command line."""

    model: str | None
    techniques: Configuration


def read_configuration(path: str | Path) -> ConfigurationFile:
    """Read what `rooftune optimize` wrote. Raises WrongInput with one line."""
    file = Path(path)
    try:
        if file.stat().st_size > _LARGEST:
            raise WrongInput(f"{file}: larger than 1 MiB, which no configuration is")
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WrongInput(f"{file}: no such configuration file") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise WrongInput(f"{file}: cannot be read ({problem})") from None
    except yaml.YAMLError as problem:
        where = getattr(problem, "problem_mark", None)
        line = f" line {where.line + 1}" if where is not None else ""
        raise WrongInput(f"{file}{line}: not valid YAML ({getattr(problem, 'problem', problem)})") from None
    if not isinstance(raw, dict):
        raise WrongInput(f"{file}: a configuration is a mapping with 'model', 'runtime' and 'techniques'")
    for key in raw:
        if key not in _KEYS:
            raise WrongInput(f"{file}: unknown key '{key}'{nearest(str(key), _KEYS)}")
    return ConfigurationFile(_model(file, raw), _techniques(file, raw))


def _model(file: Path, raw: dict[str, Any]) -> str | None:
    runtime = raw.get("runtime", "embedded")
    name = runtime.get("name") if isinstance(runtime, dict) else runtime
    if name != "embedded":
        raise WrongInput(f"{file}: runtime '{name}' cannot be served here; only 'embedded' can")
    model = raw.get("model")
    if model is not None and not isinstance(model, str):
        raise WrongInput(f"{file}: 'model' is a name or a path")
    return model


def _techniques(file: Path, raw: dict[str, Any]) -> Configuration:
    techniques = raw.get("techniques") or {}
    if not isinstance(techniques, dict) or not all(isinstance(name, str) for name in techniques):
        raise WrongInput(f"{file}: 'techniques' is a mapping such as {{batching: continuous, slots: 16}}")
    for name, value in techniques.items():
        if not isinstance(value, (bool, int, float, str)):
            raise WrongInput(f"{file}: techniques.{name} must be one value, not {type(value).__name__}")
    return techniques


def write_configuration(path: str | Path, model: str, techniques: Configuration) -> None:
    """Write the file whole or not at all. Raises EnvironmentProblem."""
    file = Path(path)
    text = "# rooftune serve --config " + file.name + "\n"
    text += yaml.safe_dump(
        {"model": model, "runtime": "embedded", "techniques": dict(techniques)},
        sort_keys=False,
        allow_unicode=True,
    )
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    except OSError as problem:
        part.unlink(missing_ok=True)
        raise EnvironmentProblem(f"{file}: cannot be written ({problem.strerror})") from None
