"""Which techniques to try, in which order: by expected gain, with a bonus for those that answer the diagnosed cause."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rooftune.runtimes.contract import TechniqueTable
from rooftune.select.predict import predict
from rooftune.spec import Configuration
from rooftune.store.run import Run
from rooftune.techniques.card import Applies, Card, PredictedEffect, TechniqueContext
from rooftune.techniques.catalogue import all_cards
from rooftune.workload.schedule import Schedule

DECIDING = ("slo_attainment", "ttft_mean", "tpot_mean", "e2e_mean", "output_tokens_per_second")
"""Metrics by which candidates are ordered where no goal says otherwise."""

_STILL = 0.01
"""A middle of less than this in log says that the metric does not move; the next deciding one is read then."""

_CAUSE_BONUS = 0.1
"""What the diagnosis is worth beside the prediction, as a log ratio: it decides between like gains."""

_HIGHER = (
    "slo_attainment",
    "goodput",
    "requests_per_second",
    "output_tokens_per_second",
    "total_tokens_per_second",
    "mbu",
    "mfu",
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A technique, the switches it would set, what is predicted of it, and whether it applies (with the reason)."""

    card: Card
    change: Configuration
    predicted: tuple[PredictedEffect, ...]
    applies: Applies
    gain: float = 0.0
    """Expected improvement of the first deciding metric that is predicted to move, as a log ratio; above 0 is better."""


def candidates(
    context: TechniqueContext,
    table: TechniqueTable,
    *,
    baseline_run: Run | None = None,
    schedule: Schedule | None = None,
    deciding: Sequence[str] = DECIDING,
) -> list[Candidate]:
    """Every technique of the catalogue: the applicable ones first, best first; the others with their reason.

    ``deciding``: metrics that decide, most important first (a percentile is read on its mean where only that is
    predicted). With ``baseline_run`` and ``schedule`` the predictions are simulated, else they are the cards' own.
    """
    found = []
    for card in all_cards():
        applies = _applies(card, context, table)
        if not applies.yes:
            found.append(Candidate(card, {}, (), applies))
            continue
        change = card.change(context)
        news = {name: value for name, value in change.items() if context.configuration.get(name) != value}
        if not news:
            found.append(Candidate(card, {}, (), Applies(False, "its switches are set that way already")))
            continue
        predicted = predict(card, context, baseline_run, schedule)
        found.append(Candidate(card, change, predicted, applies, _gain(predicted, deciding)))
    return sorted(found, key=lambda one: _order(one, context))


def _applies(card: Card, context: TechniqueContext, table: TechniqueTable) -> Applies:
    mapping = table.get(card.name)
    if mapping is None:
        return Applies(False, "the runtime's table of techniques does not name it")
    if mapping.reason is not None:
        return Applies(False, mapping.reason)
    missing = [switch for switch in mapping.switches if switch not in context.switches]
    if missing:
        return Applies(False, f"the runtime has no switch '{missing[0]}'")
    return card.applies(context)


def _gain(predicted: Sequence[PredictedEffect], deciding: Sequence[str]) -> float:
    """The middle of the interval, in log, of the first deciding metric that is predicted to move; 0 where none is."""
    effects = {effect.metric: effect for effect in predicted}
    for name in deciding:
        effect = effects.get(name) or effects.get(f"{name.rsplit('_', 1)[0]}_mean")
        if effect is None:
            continue
        middle = (math.log(effect.low) + math.log(effect.high)) / 2
        if abs(middle) >= _STILL:
            return middle if name in _HIGHER else -middle
    return 0.0


def _order(one: Candidate, context: TechniqueContext) -> tuple[bool, float, str]:
    """Applicable first, then by gain; answering the diagnosed cause counts as some gain more."""
    answers = context.cause is not None and context.cause in one.card.answers
    return (not one.applies.yes, -(one.gain + (_CAUSE_BONUS if answers else 0.0)), one.card.name)
