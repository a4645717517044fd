"""What a metric is: a named, pure function of a run's raw events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rooftune.store.records import RequestRecord
from rooftune.store.run import MetricValue


@dataclass(frozen=True, slots=True)
class MetricContext:
    """All that a metric may read. Times in nanoseconds on one monotonic clock.

    ``model`` and ``roofs`` serve MFU and MBU: the served model's facts (`/rooftune/config` → model) and the probed
    roofs of the *server's* device; None for a remote server whose device is not known.
    """

    records: Sequence[RequestRecord]
    begin_ns: int
    end_ns: int
    slo: dict[str, float] = field(default_factory=dict)
    price_per_second: float | None = None
    model: dict[str, Any] | None = None
    roofs: dict[str, Any] | None = None
    steps: Sequence[dict[str, float]] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """``needs`` names what must be there, in words; ``definition`` is one sentence that fixes the meaning."""

    name: str
    unit: str
    direction: Literal["lower", "higher", "none"]
    definition: str
    needs: str
    compute: Callable[[MetricContext], MetricValue]
