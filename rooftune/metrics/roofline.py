"""What MFU and MBU share: the model's facts, the roofs of the server's device, and the step log, or why they are missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rooftune.errors import WrongInput
from rooftune.hardware.roofs import Roofs
from rooftune.metrics.contract import MetricContext


@dataclass(frozen=True, slots=True)
class Facts:
    """config: keys as in a Hugging Face config.json. step_seconds: time in which a step was running."""

    config: dict[str, Any]
    model: dict[str, Any]
    roofs: Roofs
    step_seconds: float


def facts_of(context: MetricContext) -> Facts | str:
    """The facts, or the reason why there are none."""
    if context.model is None or not isinstance(context.model.get("config"), dict):
        return "the server does not tell its model's configuration"
    if context.roofs is None:
        return "the roofs of the server's device are not known (for this machine: rooftune roofs)"
    if not context.steps:
        return "the server keeps no step log"
    seconds = sum(step["seconds"] for step in context.steps)
    if seconds <= 0:
        return "no step ran"
    try:
        return Facts(context.model["config"], context.model, Roofs.from_json(context.roofs), seconds)
    except WrongInput as problem:
        return str(problem)
