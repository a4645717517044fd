"""A Result as strict JSON and back. No NaN or Infinity: such a value is null, and ``missing`` names its place and why."""

from __future__ import annotations

import json
import math
import os
import tempfile
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.store.result import Result

SCHEMA = "rooftune.result/1"
RESULT_FILE = "result.json"
_EXPLAINED = ("quality", "cost", "roofs", "bottleneck.baseline", "bottleneck.final")


def result_to_json(result: Result) -> dict[str, Any]:
    """Plain JSON values with the result's fields at top level, ``schema`` first.

    ``missing`` gains the path and reason of every value that was not finite, and of the parts that are None without
    a reason of their own. TypeError names the path of a value that JSON has no form for.
    """
    missing: dict[str, str] = {}
    plain: dict[str, Any] = _encode(result, "", missing)
    for path in _EXPLAINED:
        if _at(plain, path) is None:
            missing.setdefault(path, "not measured, and no reason was recorded")
    return {"schema": SCHEMA, **plain, "missing": dict(sorted((missing | plain["missing"]).items()))}


def result_from_json(data: Mapping[str, Any]) -> Result:
    """The inverse of ``result_to_json``; a number that must be there but is null comes back as NaN.

    Raises WrongInput that names the first place which does not fit.
    """
    if not isinstance(data, Mapping):
        raise WrongInput("not a Rooftune result: expected a JSON object")
    schema = data.get("schema")
    if schema != SCHEMA:
        raise WrongInput(f"not a result of this version: 'schema' is {schema!r}, expected '{SCHEMA}'")
    result: Result = _decode(Result, {k: v for k, v in data.items() if k != "schema"}, "result")
    return result


def dumps(result: Result, indent: int | None = 2) -> str:
    """The JSON text; strict, so any JSON parser reads it."""
    return json.dumps(result_to_json(result), indent=indent, allow_nan=False, ensure_ascii=False)


def write_result(result: Result, folder: str | Path) -> Path:
    """Write ``result.json`` whole or not at all; returns its path."""
    return write_whole(Path(folder) / RESULT_FILE, dumps(result) + "\n")


def load_result(path: str | Path) -> Result:
    """Read ``result.json``, given itself or its folder. Raises WrongInput with one line."""
    file = Path(path)
    file = file / RESULT_FILE if file.is_dir() else file
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WrongInput(f"{file}: no such result; `rooftune optimize SPEC --out DIR` writes one") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise WrongInput(f"{file}: cannot be read ({problem})") from None
    except json.JSONDecodeError as problem:
        raise WrongInput(f"{file}: not valid JSON (line {problem.lineno}: {problem.msg})") from None
    try:
        return result_from_json(data)
    except WrongInput as problem:
        raise WrongInput(f"{file}: {problem}") from None


def write_whole(path: Path, text: str) -> Path:
    """Replace ``path`` by ``text`` atomically: a reader, or a crash, sees the old file or the new one, never a part."""
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files that only the owner reads; a report is meant to be passed on.
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
        temporary = None
    except OSError as problem:
        raise EnvironmentProblem(f"{path}: cannot be written ({problem.strerror or problem})") from problem
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
    return path


def _at(data: Any, path: str) -> Any:
    for key in path.split("."):
        if not isinstance(data, Mapping):
            return None
        data = data.get(key)
    return data


def _encode(value: Any, path: str, missing: dict[str, str]) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        missing[path] = f"not a finite number ({float(value)})"
        return None
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _encode(getattr(value, f.name), _join(path, f.name), missing) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _encode(v, _join(path, str(k)), missing) for k, v in value.items()}
    if isinstance(value, set | frozenset):
        return [_encode(v, f"{path}[{i}]", missing) for i, v in enumerate(sorted(value, key=str))]
    if isinstance(value, Sequence):
        return [_encode(v, f"{path}[{i}]", missing) for i, v in enumerate(value)]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return _encode(value.tolist(), path, missing)
    raise TypeError(f"{path}: a {type(value).__name__} has no form in JSON")


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _decode(kind: Any, data: Any, path: str) -> Any:
    if kind is Any:
        return data
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        choices = typing.get_args(kind)
        if data is None and type(None) in choices:
            return None
        (inner,) = [choice for choice in choices if choice is not type(None)]
        return _decode(inner, data, path)
    if origin is typing.Literal:
        if data not in typing.get_args(kind):
            raise WrongInput(
                f"{path} is {data!r}, expected one of {', '.join(map(repr, typing.get_args(kind)))}"
            )
        return data
    if origin is list:
        return [
            _decode(typing.get_args(kind)[0], v, f"{path}[{i}]") for i, v in enumerate(_as(list, data, path))
        ]
    if origin is dict:
        return {
            k: _decode(typing.get_args(kind)[1], v, f"{path}.{k}") for k, v in _as(dict, data, path).items()
        }
    if is_dataclass(kind):
        return _decode_fields(kind, _as(dict, data, path), path)
    if kind is float:
        return float("nan") if data is None else float(_as((int, float), data, path))
    return _as(kind, data, path)


def _decode_fields(kind: Any, data: dict[str, Any], path: str) -> Any:
    hints = typing.get_type_hints(kind)
    values = {}
    for field in fields(kind):
        if field.name in data:
            values[field.name] = _decode(hints[field.name], data[field.name], f"{path}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise WrongInput(f"{path}.{field.name} is missing")
    unknown = sorted(set(data) - {field.name for field in fields(kind)})
    if unknown:
        raise WrongInput(f"{path}.{unknown[0]} is not known to this version")
    return kind(**values)


def _as(kind: Any, data: Any, path: str) -> Any:
    """``data`` if it has the type; a bool is never taken for a number."""
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        names = kind if isinstance(kind, tuple) else (kind,)
        raise WrongInput(
            f"{path} is a {type(data).__name__}, expected {' or '.join(k.__name__ for k in names)}"
        )
    return data
