"""Read a spec from YAML, with errors that say what to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from rooftune.errors import WrongInput
from rooftune.spec.model import Spec
from rooftune.spec.nearest import nearest

_LARGEST_SPEC = 1 << 20


def load_spec(path: str | Path) -> Spec:
    """Read and validate a spec file. Raises WrongInput with one line."""
    file = Path(path)
    try:
        if file.stat().st_size > _LARGEST_SPEC:
            raise WrongInput(f"{file}: larger than 1 MiB, which no spec is")
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise WrongInput(f"{file}: no such spec file") from None
    except IsADirectoryError:
        raise WrongInput(f"{file} is a folder; name a spec file (YAML)") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise WrongInput(f"{file}: cannot be read ({problem})") from None
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        where = getattr(problem, "problem_mark", None)
        line = f" line {where.line + 1}" if where is not None else ""
        raise WrongInput(f"{file}{line}: not valid YAML ({getattr(problem, 'problem', problem)})") from None
    if not isinstance(raw, dict):
        raise WrongInput(f"{file}: a spec is a mapping that starts with 'model: …'")
    return parse_spec(raw, str(file))


def parse_spec(raw: dict[str, Any], origin: str = "spec") -> Spec:
    """Validate a spec given as a mapping. Raises WrongInput with one line."""
    try:
        return Spec.model_validate(raw)
    except ValidationError as problem:
        raise WrongInput(f"{origin}: {_one_line(problem, raw)}") from None


def _one_line(problem: ValidationError, raw: dict[str, Any]) -> str:
    """The first problem in words; unknown keys name the nearest known key."""
    errors = problem.errors()
    error = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    where = ".".join(str(part) for part in error["loc"] if not _is_union_tag(part))
    if error["type"] == "extra_forbidden":
        *parents, key = error["loc"]
        return f"unknown key '{where}'{nearest(str(key), _known_keys(tuple(parents)))}"
    if error["type"] == "missing":
        return f"'{where}' is missing"
    message = error["msg"].removeprefix("Value error, ")
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 and not _same_place(errors) else ""
    return f"{where}: {message}{more}" if where else f"{message}{more}"


def _is_union_tag(part: int | str) -> bool:
    return isinstance(part, str) and (
        part.startswith(("function-", "constrained-", "literal[")) or part in ("int", "float", "bool", "str")
    )


def _same_place(errors: list[Any]) -> bool:
    return len({tuple(p for p in e["loc"] if not _is_union_tag(p)) for e in errors}) == 1


def _known_keys(parents: tuple[int | str, ...]) -> list[str]:
    """Field names at a place in the spec."""
    model: type[BaseModel] = Spec
    for part in parents:
        field = model.model_fields.get(str(part))
        kind = field.annotation if field is not None else None
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            break
        model = kind
    return list(model.model_fields)
