"""The engine's packages are an extra: say so in one line where they are not installed."""

from __future__ import annotations

import importlib.util

from rooftune.errors import EnvironmentProblem

_NEEDED = ("torch", "gguf", "safetensors", "tokenizers", "starlette", "uvicorn")


def need_engine_packages() -> None:
    """Raise EnvironmentProblem if the embedded engine cannot run in this installation."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise EnvironmentProblem(
            f"the embedded engine needs {', '.join(missing)}: install it with pip install 'rooftune[engine]'"
        )
