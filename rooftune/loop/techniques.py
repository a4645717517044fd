"""What became of every technique of the catalogue: accepted, rejected, not applicable, inconclusive, failed, not tried."""

from __future__ import annotations

from rooftune.loop.screen import Screened
from rooftune.loop.state import State
from rooftune.select.candidates import Candidate
from rooftune.select.predict import score
from rooftune.store.result import Prediction, TechniqueOutcome
from rooftune.store.run import Run
from rooftune.techniques.card import PredictedEffect


def technique_outcomes(state: State, partial_reason: str | None) -> list[TechniqueOutcome]:
    """One outcome a card, those that were measured first."""
    order = {
        "accepted": 0,
        "rejected": 1,
        "inconclusive": 2,
        "failed": 3,
        "not_tried": 4,
        "not_applicable": 5,
    }
    found = [_outcome(state, candidate, partial_reason) for candidate in state.considered.values()]
    return sorted(found, key=lambda outcome: (order[outcome.decision], outcome.name))


def _outcome(state: State, candidate: Candidate, partial_reason: str | None) -> TechniqueOutcome:
    card = candidate.card
    outcome = TechniqueOutcome(
        name=card.name,
        title=card.title,
        decision="not_applicable",
        reason=candidate.applies.reason,
        change=dict(candidate.change),
        lossless=card.lossless,
        undoes_own_dequantization=card.undoes_own_dequantization,
    )
    screened = state.screened.get(card.name)
    if screened is None:
        if candidate.applies.yes:
            outcome.decision = "not_tried"
            outcome.reason = (
                state.untried.get(card.name) or partial_reason or "the loop ended before it came up"
            )
        return outcome
    _screening(outcome, screened, state.untried.get(card.name))
    confirmation = state.confirmation
    decision = confirmation.decisions.get(card.name) if confirmation else None
    if confirmation is not None and decision is not None:
        outcome.stage = "confirm" if len(state.stack) == 1 else "ablation"
        outcome.rounds = decision.rounds
        outcome.decision, outcome.reason = decision.decision, decision.reason
        if card.name in confirmation.taken_out:
            outcome.reason = f"left out of the final configuration: {decision.reason}"
        elif state.quality is not None and state.quality.passed is False:
            outcome.decision, outcome.reason = "rejected", f"quality: {state.quality.statement}"
        runs = confirmation.final_runs
        outcome.active, outcome.evidence = activity(candidate, runs)
        if outcome.decision == "accepted" and outcome.active is False:
            outcome.decision, outcome.reason = (
                "inconclusive",
                f"the gain was measured, but it was not on: {outcome.evidence}",
            )
    elif any(one.candidate.card.name == card.name for one in state.stack):
        outcome.decision = "inconclusive"
        outcome.reason = f"promising in screening ({outcome.reason}), not confirmed: {partial_reason or 'the budget ended'}"
    return outcome


def _screening(outcome: TechniqueOutcome, screened: Screened, left_out: str | None) -> None:
    """What screening alone says. Futile with its interval is a measured rejection; the rest is not decided."""
    outcome.predicted = [
        Prediction(p.metric, p.low, p.high, p.basis, _hit(p, screened)) for p in screened.candidate.predicted
    ]
    outcome.stage = "screen"
    outcome.rounds = sum(run is not None for run in screened.runs)
    outcome.active, outcome.evidence = activity(
        screened.candidate, [run for run in screened.runs if run is not None]
    )
    outcome.measured = screened.measured()
    if screened.failed is not None:
        outcome.decision, outcome.reason = "failed", screened.failed
    elif screened.noop is not None:
        outcome.decision, outcome.reason = "failed", screened.noop
    elif screened.decision is not None:
        outcome.decision = "rejected" if screened.decision.decision == "futile" else "inconclusive"
        outcome.reason = screened.decision.reason
        if screened.decision.decision == "promising":
            outcome.reason += f"; {left_out or 'another technique that sets the same switch promised more'}"


def _hit(predicted: PredictedEffect, screened: Screened) -> bool | None:
    """Whether the measured effect's interval overlaps the predicted one; None where that metric was not measured."""
    ratio = screened.measured().get(predicted.metric)
    if ratio is not None:
        return score(predicted, ratio) == "hit"
    effect = (screened.others or {}).get(predicted.metric)
    before = screened.before.get(predicted.metric)
    if effect is None or effect.interval is None or before is None:
        return None
    return score(predicted, effect.interval, effect.scale, before) == "hit"


def activity(candidate: Candidate, runs: list[Run]) -> tuple[bool | None, str | None]:
    """Whether the ledgers show the technique on: every switch that it sets, in the runs where it was asked for."""
    told = [entry for run in runs for entry in run.ledger if entry.switch in candidate.change]
    if not told:
        return None, "the server gives no evidence"
    off = next((entry for entry in told if entry.active is False), None)
    if off is not None and all(entry.active is False for entry in told if entry.switch == off.switch):
        return False, f"{off.switch}: {off.reason}"
    shown = next((entry for entry in told if entry.active), None)
    if shown is None:
        return None, told[0].reason
    moved = f" (+{shown.moved:g})" if shown.moved is not None else ""
    return True, f"{shown.counter or shown.switch}{moved}: {shown.reason}"
