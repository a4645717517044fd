"""Rooftune: from a goal for a served LLM to a proven faster, cheaper configuration.

The functions of the Python API are found here by name and imported when first used, so that ``import rooftune`` is cheap:
``rooftune.optimize``, ``rooftune.bench``, ``rooftune.diagnose``, ``rooftune.load_run``, ``rooftune.save_run``, ``rooftune.roofs``.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_API = ("optimize", "bench", "load_run", "save_run", "roofs")


def __getattr__(name: str) -> Any:
    if name in _API:
        from rooftune import api

        return getattr(api, name)
    raise AttributeError(f"module 'rooftune' has no attribute '{name}'")
