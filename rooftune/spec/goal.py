"""Goals: a bound on a run. Every bound carries its sign."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from rooftune.spec.units import Dimension, format_quantity, parse_quantity

Sign = Literal["<=", ">="]

_LATENCIES = ("ttft", "tpot", "itl", "e2e")
_STATISTICS = ("mean", "p50", "p90", "p95", "p99")

GOAL_DIMENSIONS: dict[str, Dimension] = {
    **{f"{name}_{statistic}": "time" for name in _LATENCIES for statistic in _STATISTICS},
    "slo_attainment": "share",
    "error_rate": "share",
    "goodput": "rate",
    "requests_per_second": "rate",
    "input_tokens_per_second": "rate",
    "output_tokens_per_second": "rate",
    "total_tokens_per_second": "rate",
    "mfu": "share",
    "mbu": "share",
    "cost_per_million_output_tokens": "money",
}
"""Metrics that may carry a goal. The names are those of `rooftune bench --json`."""

QUALITY_DIMENSIONS: dict[str, Dimension] = {"kl_mean": "plain", "top1_agreement": "share"}

_BOUND = re.compile(r"^\s*(<=|>=|<|>|=|==)?\s*(.+)$")


@dataclass(frozen=True, slots=True)
class Goal:
    """One bound, in base units (seconds, per second, 0 to 1, currency)."""

    metric: str
    sign: Sign
    target: float
    dimension: Dimension

    def met(self, value: float) -> bool:
        return value <= self.target if self.sign == "<=" else value >= self.target

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {format_quantity(self.target, self.dimension)}"


def parse_bound(metric: str, text: str | float, dimension: Dimension) -> Goal:
    """Read ``"<= 400ms"``. A bound without a sign is refused, since its direction would be a guess."""
    match = _BOUND.match(str(text))
    sign = match.group(1) if match else None
    if match is None or sign not in ("<=", ">="):
        raise ValueError(f"goal {metric}: '{text}' needs its sign, '<= …' or '>= …'")
    try:
        target = parse_quantity(match.group(2), dimension)
    except ValueError as problem:
        raise ValueError(f"goal {metric}: {problem}") from None
    return Goal(metric=metric, sign="<=" if sign == "<=" else ">=", target=target, dimension=dimension)


def parse_goal_expression(expression: str) -> Goal:
    """Read a command-line goal such as ``ttft_p95<=400ms``."""
    match = re.match(r"^\s*([a-z0-9_]+)\s*((?:<=|>=).+)$", expression)
    if match is None:
        raise ValueError(
            f"goal '{expression}': write it as METRIC<=VALUE or METRIC>=VALUE, e.g. ttft_p95<=400ms"
        )
    metric = match.group(1)
    dimension = GOAL_DIMENSIONS.get(metric)
    if dimension is None:
        from rooftune.spec.nearest import nearest

        raise ValueError(f"goal '{expression}': unknown metric {metric}{nearest(metric, GOAL_DIMENSIONS)}")
    return parse_bound(metric, match.group(2), dimension)
