"""The simulated engine: test double, source of diagnosis cases, and basis of prediction. Needs no torch."""

from __future__ import annotations

from rooftune.engine.simulated.model import ResidualSpread, StepTimeModel, fit
from rooftune.engine.simulated.simulate import (
    Arrival,
    Follow,
    SimulatedRequest,
    Simulation,
    run_simulation,
    simulate,
)

__all__ = [
    "Arrival",
    "Follow",
    "ResidualSpread",
    "SimulatedRequest",
    "Simulation",
    "StepTimeModel",
    "fit",
    "run_simulation",
    "simulate",
]
