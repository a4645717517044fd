"""Everything the loop knows so far. A partial result is made from it at any moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rooftune.compare.effect import Effect
from rooftune.diagnose.diagnose import Diagnosis
from rooftune.loop.confirm import Confirmation
from rooftune.loop.plan import Plan
from rooftune.loop.screen import Screened
from rooftune.select.candidates import Candidate
from rooftune.spec import Configuration, Goal
from rooftune.store.result import QualityOutcome
from rooftune.store.run import Run


@dataclass(slots=True)
class State:
    """Filled in as the stages finish; None means that the stage has not finished."""

    baseline_configuration: Configuration
    defaults_configuration: Configuration
    roofs: dict[str, Any] | None = None
    rate: float | None = None
    pilot: Run | None = None
    baseline_run: Run | None = None
    baseline_diagnosis: Diagnosis | None = None
    final_diagnosis: Diagnosis | None = None
    plan: Plan | None = None
    deciding: Goal | None = None
    watched: list[Goal] = field(default_factory=list)
    considered: dict[str, Candidate] = field(default_factory=dict)
    """Every card of the catalogue by name, with whether it applies."""
    screened: dict[str, Screened] = field(default_factory=dict)
    stack: list[Screened] = field(default_factory=list)
    untried: dict[str, str] = field(default_factory=dict)
    """Applicable techniques that were not tried, with the reason."""
    confirmation: Confirmation | None = None
    quality: QualityOutcome | None = None
    saturated: dict[str, float | None] = field(default_factory=dict)
    """Arm -> output tokens per second with all slots busy."""
    effects: dict[str, Effect] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)
