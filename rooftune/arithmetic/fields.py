"""Reading numbers from a Hugging Face-style configuration, with errors that name the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooftune.errors import WrongInput


class Fields:
    """The language part of a configuration (``text_config`` where there is one), read by key."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        text = config.get("text_config")
        self._values: dict[str, Any] = {
            key: value for key, value in config.items() if key not in ("text_config", "vision_config")
        }
        if isinstance(text, Mapping):
            self._values.update(text)
        self.architecture = _architecture(config, text if isinstance(text, Mapping) else {})

    def number(self, *names: str, default: int | None = None) -> int:
        """The first of the keys that is there; WrongInput naming the key where none is and there is no default."""
        for name in names:
            value = self._values.get(name)
            if value is None:
                continue
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or value != int(value)
                or value < 0
            ):
                raise WrongInput(f"model config: '{name}' must be a whole number, not {value!r}")
            return int(value)
        if default is None:
            raise WrongInput(
                f"model config: '{names[0]}' is missing, without it {self.architecture} cannot be counted"
            )
        return default

    def positive(self, *names: str) -> int:
        value = self.number(*names)
        if value == 0:
            raise WrongInput(f"model config: '{names[0]}' must be above 0")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self._values.get(name)
        return default if value is None else bool(value)

    def items(self, name: str) -> list[Any] | None:
        value = self._values.get(name)
        return list(value) if isinstance(value, list | tuple) and value else None

    def has(self, name: str) -> bool:
        return self._values.get(name) is not None


def _architecture(config: Mapping[str, Any], text: Mapping[str, Any]) -> str:
    for source in (config, text):
        name = source.get("model_type")
        if isinstance(name, str) and name:
            return name
    classes = config.get("architectures")
    if isinstance(classes, list | tuple) and classes:
        return str(classes[0])
    raise WrongInput("model config: neither 'model_type' nor 'architectures' says what model this is")
