"""Rooftune: from a goal for a served LLM to a proven faster, cheaper configuration.

The functions of the Python API are found here by name and imported when first used, so that ``import rooftune`` is cheap:
``rooftune.optimize``, ``rooftune.bench``, ``rooftune.load_run``, ``rooftune.save_run``, ``rooftune.roofs``;
``rooftune.api.diagnose`` (its short name is the package of causes).
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_API = ("optimize", "bench", "load_run", "save_run", "roofs")


def __getattr__(name: str) -> Any:
    if name in _API:
        # By name, since the layers below import this package too and must not seem to depend on the API.
        return getattr(importlib.import_module("rooftune.api"), name)
    raise AttributeError(f"module 'rooftune' has no attribute '{name}'")
