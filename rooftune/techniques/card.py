"""A technique card: what it answers, when it applies, what it is predicted to do. A card never names a runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rooftune.spec import Configuration


@dataclass(frozen=True, slots=True)
class TechniqueContext:
    """What a card may read: measured facts of the baseline, None where not measured.

    facts holds plain numbers by name (e.g. running_mean, waiting_mean, ttft_p95, tpot_p50, queue_mean, mbu, mfu,
    slots, shared_prefix_share, prompt_tokens_mean, output_tokens_mean, decode_step_seconds, prefill_seconds_per_token,
    arrival_rate, service_capacity); ``cause`` is the diagnosed bottleneck, or None.
    """

    configuration: Configuration
    facts: Mapping[str, float | None]
    cause: str | None = None
    switches: frozenset[str] = frozenset()
    """Switches that the runtime has."""


@dataclass(frozen=True, slots=True)
class Applies:
    yes: bool
    reason: str


@dataclass(frozen=True, slots=True)
class PredictedEffect:
    """Ratio after / before of a metric, as an interval that must hold with about 90 % probability."""

    metric: str
    low: float
    high: float
    basis: str


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting of the technique: its switch and the values worth trying, best guess first."""

    switch: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A *first determine* question of the problem; ``fact`` names the measured fact that answers it."""

    text: str
    fact: str | None


@dataclass(frozen=True, slots=True)
class Card:
    """One technique of the field.

    ``change(context)`` gives the switches it would set (empty: nothing to change); ``in_engine`` False means that the
    embedded engine does not have it yet (``applies`` then says so).
    """

    name: str
    title: str
    family: str
    problem: int
    """Number of the problem in the method (1 to 10)."""
    summary: str
    questions: tuple[Question, ...]
    lossless: bool
    can_worsen: tuple[str, ...]
    evidence_of_active: str
    source: str
    answers: tuple[str, ...]
    """Cause ids that it answers."""
    applies: Callable[[TechniqueContext], Applies]
    change: Callable[[TechniqueContext], Configuration]
    predict: Callable[[TechniqueContext], tuple[PredictedEffect, ...]]
    knobs: tuple[Knob, ...] = ()
    in_engine: bool = False
    undoes_own_dequantization: bool = False
    notes: tuple[str, ...] = field(default=())
