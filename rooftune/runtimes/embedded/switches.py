"""The switches of the embedded engine: words of a configuration to an EngineConfig."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rooftune.engine.contracts import EngineConfig
from rooftune.errors import WrongInput
from rooftune.spec import Configuration, Setting, parse_quantity
from rooftune.spec.nearest import nearest


@dataclass(frozen=True, slots=True)
class Switch:
    """A setting that a user may make; ``read`` turns what was written into the value, or raises ValueError."""

    help: str
    read: Callable[[Setting], Setting]


def _whole(low: int, high: int) -> Callable[[Setting], Setting]:
    def read(value: Setting) -> Setting:
        number = value
        if isinstance(value, str) and value.strip().lstrip("+-").isdigit():
            number = int(value)
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return number

    return read


def _one_of(*words: str, yes: str | None = None, no: str | None = None) -> Callable[[Setting], Setting]:
    """One of the words; YAML's on and off stand for ``yes`` and ``no`` where those are given."""

    def read(value: Setting) -> Setting:
        word = _as_bool(value)
        if word is True and yes is not None:
            return yes
        if word is False and no is not None:
            return no
        if value in words:
            return value
        raise ValueError(f"one of {', '.join(words)}")

    return read


def _as_bool(value: Setting) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}.get(
            value.lower()
        )
    return None


def _on_off(value: Setting) -> Setting:
    chosen = _as_bool(value)
    if chosen is None:
        raise ValueError("on or off")
    return chosen


def _seconds(value: Setting) -> Setting:
    try:
        seconds = float(value) if not isinstance(value, str) else _from_words(value)
    except (ValueError, WrongInput):
        raise ValueError("a time such as 50ms") from None
    if isinstance(value, bool) or not 0 <= seconds <= 60:
        raise ValueError("a time from 0 to 60 s")
    return seconds


def _from_words(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return float(parse_quantity(value, "time"))


SWITCHES: dict[str, Switch] = {
    "batching": Switch(
        "static: a batch starts when all before it are done; dynamic: the same, but waits for more requests; "
        "continuous: requests join and leave at every step",
        _one_of("static", "dynamic", "continuous"),
    ),
    "slots": Switch("most sequences that run at once", _whole(1, 4096)),
    "batch_wait": Switch(
        "seconds that a partial batch waits; read by dynamic batching only, idle under the others", _seconds
    ),
    "token_budget": Switch("most new tokens in one step", _whole(1, 1 << 20)),
    "chunked_prefill": Switch(
        "on: a prompt is computed in pieces beside the decodes; off: whole, in a step of its own", _on_off
    ),
    "prefix_cache": Switch(
        "hash: beginnings of prompts that were computed before are reused; none: never",
        _one_of("none", "hash", yes="hash", no="none"),
    ),
    "weight_kernel": Switch(
        "packed: native kernels on the file's own grid; reference: PyTorch float32 of the dequantized weights",
        _one_of("reference", "packed"),
    ),
    "pool_tokens": Switch("tokens that the KV page pool holds", _whole(1, 1 << 30)),
    "threads": Switch("threads that compute", _whole(1, 1024)),
}


def resolve(configuration: Mapping[str, Setting]) -> EngineConfig:
    """The engine's configuration; what is not named keeps the engine's default. Raises WrongInput."""
    values: dict[str, Any] = {}
    for name, value in configuration.items():
        switch = SWITCHES.get(name)
        if switch is None:
            raise WrongInput(f"unknown switch '{name}' of the embedded engine{nearest(name, SWITCHES)}")
        try:
            values[name] = switch.read(value)
        except ValueError as problem:
            raise WrongInput(f"switch '{name}' is {value!r}; it must be {problem}") from None
    config = EngineConfig(**values)
    _check_together(config)
    return config


def _check_together(config: EngineConfig) -> None:
    """Settings that are each allowed but impossible together."""
    if config.token_budget < config.slots:
        raise WrongInput(
            f"token_budget {config.token_budget} is less than slots {config.slots}: every running sequence needs a "
            "token per step; raise token_budget or lower slots"
        )
    if config.pool_tokens < config.page_size:
        raise WrongInput(
            f"pool_tokens {config.pool_tokens} is less than one page of {config.page_size} tokens"
        )


def defaults() -> Configuration:
    """Every switch at the engine's default ("Rooftune defaults")."""
    values = asdict(EngineConfig())
    return {name: values[name] for name in SWITCHES}


def parse_assignment(text: str) -> tuple[str, Setting]:
    """``SWITCH=VALUE`` of the command line. Raises WrongInput."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip() or not value.strip():
        raise WrongInput(f"--set {text}: write SWITCH=VALUE, e.g. --set slots=8")
    return name.strip(), value.strip()
