"""What a step's duration is made of, by regression on the step log.

seconds = base + per_prefill_token * prefill_tokens + per_row * decode_rows + per_context_token * context_tokens, all coefficients at
least 0, least squares on the relative error. ``base`` is what a step costs however little it computes: weights read once,
launches, host work. Which of these it is, the regression cannot say; roofs and experiments can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

Step = Mapping[str, float]
Array = npt.NDArray[np.float64]

FEWEST_STEPS = 12
_OUTLIER = 6.0
_FEWEST_LEVELS_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class StepModel:
    """Seconds, seconds per token or per row. ``separable``: the batch varied enough to tell base from per-row cost."""

    base: float
    per_prefill_token: float
    per_row: float
    per_context_token: float
    separable: bool
    prefill_separable: bool
    steps: int
    relative_error: float
    """Median absolute relative error of the fit."""

    def seconds(
        self, *, prefill_tokens: float = 0.0, rows: float = 0.0, context_tokens: float = 0.0
    ) -> float:
        return (
            self.base
            + self.per_prefill_token * prefill_tokens
            + self.per_row * rows
            + self.per_context_token * context_tokens
        )


def seconds_of(step: Step) -> float:
    return step["seconds"] if "seconds" in step else step["duration"]


def begin_of(step: Step) -> float:
    return step["begin_ns"] if "begin_ns" in step else step["start_ns"]


def context_of(step: Step) -> float:
    """Positions that the decode rows read; without the finer field, all of the step."""
    return step["decode_context"] if "decode_context" in step else step.get("context_tokens", 0.0)


def fit_steps(steps: Sequence[Step]) -> StepModel | None:
    """Fit the log of one configuration; None with too few steps."""
    rows = [s for s in steps if seconds_of(s) > 0]
    if len(rows) < FEWEST_STEPS:
        return None
    sizes = np.array(
        [[1.0, s["prefill_tokens"], s["decode_rows"], context_of(s)] for s in rows], dtype=np.float64
    )
    seconds = np.array([seconds_of(s) for s in rows], dtype=np.float64)
    coefficients = _solve(sizes, seconds)
    errors = _errors(sizes, seconds, coefficients)
    centre = np.median(errors)
    kept = np.abs(errors - centre) <= max(_OUTLIER * float(np.median(np.abs(errors - centre))), 1e-6)
    if kept.sum() >= FEWEST_STEPS:
        sizes, seconds = sizes[kept], seconds[kept]
        coefficients = _solve(sizes, seconds)
        errors = _errors(sizes, seconds, coefficients)
    base, prefill, row, context = (float(c) for c in coefficients)
    return StepModel(
        base,
        prefill,
        row,
        context,
        separable=_varies(sizes[:, 2][sizes[:, 2] > 0]),
        prefill_separable=_varies(sizes[:, 1][sizes[:, 1] > 0]),
        steps=len(seconds),
        relative_error=float(np.median(np.abs(errors))),
    )


def _varies(values: Array) -> bool:
    """At least a factor of 1.8 between levels that each hold a tenth of the steps."""
    if len(values) < FEWEST_STEPS // 2:
        return False
    low, high = np.quantile(values, [_FEWEST_LEVELS_SHARE, 1.0 - _FEWEST_LEVELS_SHARE])
    return bool(high >= 1.8 * low)


def _solve(sizes: Array, seconds: Array) -> Array:
    weighted = sizes / seconds[:, None]
    scale = np.linalg.norm(weighted, axis=0)
    scale[scale == 0] = 1.0
    solution, _ = nnls(weighted / scale, np.ones(len(seconds)))
    result: Array = solution / scale
    return result


def _errors(sizes: Array, seconds: Array, coefficients: Array) -> Array:
    predicted: Any = np.maximum(sizes @ coefficients, 1e-300)
    errors: Array = seconds / predicted - 1.0
    return errors
