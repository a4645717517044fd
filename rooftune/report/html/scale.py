"""Axes: a value's place between 0 and 1, and where the ticks go."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps [low, high] to [0, 1]; ``log`` scales need low > 0."""

    low: float
    high: float
    log: bool = False

    def __call__(self, value: float) -> float:
        if self.log:
            if value <= 0:
                return 0.0
            place = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            place = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, place))

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def ticks(self, most: int = 6) -> list[float]:
        """Round values within the scale, at most ``most`` of them."""
        return _log_ticks(self.low, self.high, most) if self.log else _linear_ticks(self.low, self.high, most)


def covering(values: Iterable[float], *, from_zero: bool = False, log_from: float = 8.0) -> Scale | None:
    """A scale that holds all values with a margin: logarithmic where they span more than ``log_from`` times.

    None when there is nothing finite to show.
    """
    finite = [v for v in values if math.isfinite(v)]
    if not finite:
        return None
    low, high = min(finite), max(finite)
    if low > 0 and not from_zero and high / low > log_from:
        return Scale(low * 0.92, high * 1.08, log=True)
    start = min(0.0, low) if from_zero or low < (high - low) else low - 0.06 * (high - low)
    end = high + 0.06 * (high - start)
    if end <= start:
        end = start + (abs(start) or 1.0)
    return Scale(start, end)


def ratios(values: Iterable[float], most: float = 32.0) -> Scale:
    """A logarithmic scale for ratios that always shows 1, at least 0.8 to 1.25, and never beyond ``most``."""
    positive = [v for v in values if math.isfinite(v) and v > 0]
    low = max(1 / most, min([0.8, *positive]) * 0.93)
    high = min(most, max([1.25, *positive]) * 1.07)
    return Scale(low, high, log=True)


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10, 20) if (high - low) / (m * power) <= most)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        ticks = [s * 10.0**d for d in decades for s in steps if low <= s * 10.0**d <= high]
        if len(ticks) <= most:
            return ticks
    every = math.ceil(len(ticks) / most)
    return ticks[::every]


def ratio_ticks(scale: Scale, most: int = 7) -> list[float]:
    """Ticks of a ratio axis: powers of two around 1, finer where the scale is narrow."""
    if scale.high / scale.low < 3:
        candidates = [0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75]
    else:
        candidates = [2.0**power for power in range(-5, 6)]
    ticks = [t for t in candidates if scale.holds(t)]
    while len(ticks) > most:
        ticks = (
            [t for t in ticks if round(math.log2(t)) % 2 == 0] if scale.high / scale.low >= 3 else ticks[::2]
        )
    return ticks
