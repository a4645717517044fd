"""When requests are due: absolute offsets from the start, decided before the run."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

NANOSECONDS = 1_000_000_000


def constant(requests: int, rate: float) -> list[int]:
    """Request i is due at i / rate. Offsets in nanoseconds."""
    return [round(i * NANOSECONDS / rate) for i in range(requests)]


def poisson(requests: int, rate: float, generator: Generator) -> list[int]:
    """A Poisson process: independent exponential gaps of mean 1 / rate; the first request is due after one gap.

    The gaps are not rescaled to an exact duration: that would take the process's own variance out of long windows.
    """
    gaps = generator.exponential(1.0 / rate, size=requests)
    offsets = np.cumsum(gaps) * NANOSECONDS
    return [int(offset) for offset in offsets]


def closed_loop(requests: int) -> list[int]:
    """With users who wait for their answer the answers set the pace: every offset is 0, only the order counts."""
    return [0] * requests


def dispersion(offsets_ns: list[int], window: float) -> float:
    """Variance over mean of the counts in windows of ``window`` seconds; 1 for a Poisson process."""
    if not offsets_ns:
        raise ValueError("no arrivals")
    width = window * NANOSECONDS
    whole = int(offsets_ns[-1] // width)
    if whole < 2:
        raise ValueError(f"fewer than two whole windows of {window} s")
    counts = np.bincount(
        np.asarray([offset // width for offset in offsets_ns if offset < whole * width], dtype=np.int64),
        minlength=whole,
    )
    return float(counts.var(ddof=1) / counts.mean())
