"""How long a step takes: a linear model of what the step computes, fitted on measured steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from rooftune.engine.stats import StepRecord
from rooftune.engine.work import StepWork
from rooftune.errors import WrongInput

MINIMUM_STEPS = 20
"""Fewer measured steps than this are not fitted."""

OUTLIER_DEVIATIONS = 6.0
"""Steps whose relative error lies further from the median than so many median absolute deviations are left out."""

REWEIGHTINGS = 5

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ResidualSpread:
    """Relative errors (measured / predicted - 1) of the steps that were fitted.

    steps: fitted; dropped: left out as outliers; p10, median, p90: quantiles of the relative error.
    """

    steps: int
    dropped: int
    p10: float
    median: float
    p90: float


@dataclass(frozen=True, slots=True)
class StepTimeModel:
    """Seconds of a step = base + the sum of each size of its work times its coefficient (sizes: see StepWork)."""

    base: float
    per_prefill_token: float = 0.0
    per_prefill_token_context: float = 0.0
    """Per query-key pair of the prompt's attention."""
    per_decode_row: float = 0.0
    per_context_token: float = 0.0
    """Per position read by the attention of decode rows."""
    per_finished_prompt: float = 0.0
    spread: ResidualSpread | None = None
    """How well it fits the steps that it comes from; None if it was not fitted."""

    def seconds(self, work: StepWork) -> float:
        """Predicted duration of a step."""
        return (
            self.base
            + self.per_prefill_token * work.prefill_tokens
            + self.per_prefill_token_context * work.prefill_context
            + self.per_decode_row * work.decode_rows
            + self.per_context_token * work.decode_context
            + self.per_finished_prompt * work.finished_prompts
        )


def fit(step_log: Iterable[StepRecord]) -> StepTimeModel:
    """Non-negative least squares on the relative error of the duration; WrongInput with too few steps.

    Relative, because a step of 5 ms matters as much to a decoding request as one of 500 ms to a waiting prompt.
    Outliers (the machine did something else) are left out once, then the rest is fitted again. A coefficient
    whose size never varied cannot be told from the others: predictions hold only near what was measured.
    """
    records = [record for record in step_log if record.duration > 0]
    if len(records) < MINIMUM_STEPS:
        raise WrongInput(f"{len(records)} steps were measured; at least {MINIMUM_STEPS} are needed for a fit")
    sizes = np.array([_sizes(record.work) for record in records], dtype=np.float64)
    durations = np.array([record.duration for record in records], dtype=np.float64)
    # Weighted by the measured time, a step that was held up counts for little: a robust start.
    coefficients = _solve(sizes, durations, durations)
    errors = _relative_errors(sizes, durations, coefficients)
    centre = np.median(errors)
    deviation = np.median(np.abs(errors - centre))
    kept = np.abs(errors - centre) <= max(OUTLIER_DEVIATIONS * deviation, 1e-9)
    if kept.sum() >= MINIMUM_STEPS:
        sizes, durations = sizes[kept], durations[kept]
    # Weighted by the predicted time the mean relative error is 0; by the measured one it would predict too little.
    for _ in range(REWEIGHTINGS):
        coefficients = _solve(sizes, durations, sizes @ coefficients)
    errors = _relative_errors(sizes, durations, coefficients)
    p10, median, p90 = (float(value) for value in np.quantile(errors, [0.1, 0.5, 0.9]))
    spread = ResidualSpread(len(durations), len(records) - len(durations), p10, median, p90)
    base, token, pair, row, context, prompt = (float(value) for value in coefficients)
    return StepTimeModel(base, token, pair, row, context, prompt, spread)


def _sizes(work: StepWork) -> tuple[Any, ...]:
    return (
        1.0,
        work.prefill_tokens,
        work.prefill_context,
        work.decode_rows,
        work.decode_context,
        work.finished_prompts,
    )


def _solve(sizes: Array, durations: Array, expected: Array) -> Array:
    """Least squares of (predicted - measured) / expected with coefficients of at least 0."""
    weights = 1.0 / np.maximum(expected, 1e-9)
    weighted = sizes * weights[:, None]
    scale = np.linalg.norm(weighted, axis=0)
    scale[scale == 0] = 1.0
    solution, _ = nnls(weighted / scale, durations * weights)
    coefficients: Array = solution / scale
    return coefficients


def _relative_errors(sizes: Array, durations: Array, coefficients: Array) -> Array:
    predicted = np.maximum(sizes @ coefficients, 1e-12)
    errors: Array = durations / predicted - 1.0
    return errors
