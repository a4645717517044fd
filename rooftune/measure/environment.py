"""Where the client ran: what a reader needs to judge a number from another machine."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psutil

from rooftune.hardware.machine import machine


def environment() -> dict[str, Any]:
    """Facts of this machine now. No host name, no user, no paths."""
    described = machine()
    load: float | None
    try:
        load = os.getloadavg()[0]
    except (OSError, AttributeError):
        load = None
    return {
        "rooftune": _version(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "cpu": described.cpu,
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_average": load,
    }


def _version() -> str | None:
    try:
        return version("rooftune")
    except PackageNotFoundError:
        return None
