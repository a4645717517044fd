"""The options of `rooftune bench` as values: workload, target, goals, bounds, price."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from rooftune.errors import WrongInput
from rooftune.measure.target import Target
from rooftune.spec import Goal, Price, Spec, Workload, parse_goal_expression, parse_quantity
from rooftune.spec.nearest import nearest

_DEFAULT_USERS = 4


@dataclass(frozen=True, slots=True)
class Asked:
    """The options as given."""

    rate: str | None
    concurrency: int | None
    think: str | None
    requests: int | None
    duration: str | None
    input_tokens: int | None
    output_tokens: int | None
    prompts: str | None
    arrivals: str | None
    seed: int | None


def read_workload(asked: Asked, spec: Spec | None) -> Workload:
    """The workload that options and spec describe together; options win."""

    base: dict[str, Any] = (
        spec.workload.model_dump(exclude_unset=True)
        if spec is not None
        else {"seed": secrets.randbelow(2**31)}
    )
    if asked.rate is not None and asked.concurrency is not None:
        raise WrongInput("--rate (open loop) and --concurrency (closed loop) exclude each other")
    if asked.requests is not None and asked.duration is not None:
        raise WrongInput("--requests and --duration exclude each other")
    if asked.input_tokens is not None and asked.prompts not in (None, "synthetic", "builtin:longdoc"):
        raise WrongInput(
            f"--input-tokens makes synthetic prompts; it does not go with --prompts {asked.prompts}"
        )
    if asked.rate is not None:
        base["arrivals"] = {"process": asked.arrivals or "poisson", "rate": asked.rate}
    elif asked.concurrency is not None or "arrivals" not in base:
        if asked.arrivals is not None:
            raise WrongInput("--arrivals goes with --rate")
        base["arrivals"] = {"process": "concurrency", "users": asked.concurrency or _DEFAULT_USERS}
        if asked.think is not None:
            base["arrivals"]["think"] = asked.think
    if asked.think is not None and "think" not in base["arrivals"]:
        raise WrongInput("--think goes with --concurrency")
    wanted = dict(base.get("prompts") or {})
    if asked.prompts is not None:
        wanted = {"source": asked.prompts}
    if asked.input_tokens is not None:
        wanted["input_tokens"] = asked.input_tokens
        if asked.prompts is None:
            wanted["source"] = "synthetic"
    if asked.output_tokens is not None:
        wanted["output_tokens"] = asked.output_tokens
    if wanted:
        base["prompts"] = wanted
    if asked.seed is not None:
        base["seed"] = asked.seed
    try:
        if isinstance(asked.duration, str) and parse_quantity(asked.duration, "time") <= 0:
            raise ValueError("--duration must be above 0")
        return Workload.model_validate(_with_units(base))
    except ValidationError as problem:
        error = problem.errors()[0]
        where = ".".join(str(part) for part in error["loc"] if isinstance(part, str) and "[" not in part)
        raise WrongInput(f"{where}: {error['msg'].removeprefix('Value error, ')}") from None
    except ValueError as problem:
        raise WrongInput(str(problem)) from None


def _with_units(base: dict[str, Any]) -> dict[str, Any]:
    """A dumped spec holds plain numbers; the fields with a dimension read them with a unit."""
    arrivals = dict(base["arrivals"])
    if isinstance(arrivals.get("rate"), int | float):
        arrivals["rate"] = f"{arrivals['rate']!r}/s"
    if isinstance(arrivals.get("think"), int | float):
        arrivals["think"] = f"{arrivals['think']!r}s"
    return {**base, "arrivals": {k: v for k, v in arrivals.items() if v is not None}}


def read_target(
    model: str | None, header: list[str] | None, extra_body: str | None, api_key_env: str | None, timeout: str
) -> Target:

    headers = []
    for line in header or ():
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise WrongInput(f"--header '{line}': write it as NAME:VALUE")
        headers.append((name.strip(), value.strip()))
    body: Any = {}
    if extra_body is not None:
        try:
            body = json.loads(extra_body)
        except ValueError as problem:
            raise WrongInput(f"--extra-body is not JSON ({problem})") from None
        if not isinstance(body, dict):
            raise WrongInput("--extra-body must be a JSON object, e.g. '{\"top_p\": 0.9}'")
    try:
        seconds = parse_quantity(timeout, "time")
    except ValueError as problem:
        raise WrongInput(f"--timeout: {problem}") from None
    if seconds <= 0:
        raise WrongInput("--timeout must be above 0")
    return Target(
        url="",
        model=model or "",
        headers=tuple(headers),
        extra_body=body,
        api_key_env=api_key_env,
        timeout=seconds,
    )


def read_goals(expressions: list[str] | None) -> list[Goal]:

    try:
        return [parse_goal_expression(text) for text in expressions or ()]
    except ValueError as problem:
        raise WrongInput(str(problem)) from None


def read_slo(expressions: list[str] | None) -> dict[str, float]:

    names = ("ttft", "tpot", "itl", "e2e")
    found = {}
    for text in expressions or ():
        name, sign, value = (part.strip() for part in text.partition("<="))
        if not sign or name not in names:
            hint = nearest(name, names) if sign else "; write it as ttft<=400ms"
            raise WrongInput(f"--slo '{text}'{hint}")
        try:
            found[name] = parse_quantity(value, "time")
        except ValueError as problem:
            raise WrongInput(f"--slo {name}: {problem}") from None
        if found[name] <= 0:
            raise WrongInput(f"--slo {name} must be above 0")
    return found


def read_price(amount: float | None, currency: str) -> Price | None:

    return None if amount is None else Price(amount=amount, currency=currency, per="hour")
