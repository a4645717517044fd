"""What a cause's judge says, and the evidence that it read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from rooftune.store.run import Run

Status = Literal["supported", "refuted", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause judged. ``share`` is the part of the lost time that it explains, 0 to 1; evidence in plain sentences."""

    cause: str
    status: Status
    share: float | None
    confidence: float | None
    evidence: tuple[str, ...]
    missing: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    """Technique cards that answer this cause."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a judge may read: a finished run, and the results of experiments on a runtime that we may command."""

    run: Run
    experiments: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Experiment name -> its signature (stated before) and outcome."""
