"""queue_slots: requests wait because every slot is taken, while the machine could serve more at once."""

from __future__ import annotations

from rooftune.diagnose.causes.queueing import pool_piece, waiting_pieces
from rooftune.diagnose.causes.weigh import Piece, experiment_piece, present, threshold, weigh
from rooftune.diagnose.facts import Facts, gather
from rooftune.diagnose.finding import Evidence, Finding

CAUSE = "queue_slots"
ANSWERS = ("continuous_batching", "more_slots", "dynamic_batching")

USEFUL_GAIN = 1.30
USELESS_GAIN = 1.15
"""Throughput that doubled slots would give, by the step model: above 1.3 slots are what limits, below 1.15 they are not."""


def judge(evidence: Evidence, facts: Facts | None = None) -> Finding:
    facts = facts or gather(evidence.run)
    gain = facts.gain_of_doubling()
    limit = _at_limit(facts)
    pieces = present(
        *waiting_pieces(facts),
        limit,
        pool_piece(facts),
        threshold(
            "step model",
            gain,
            low=USELESS_GAIN,
            high=USEFUL_GAIN,
            text=f"twice the sequences at once would serve {gain:.2f} times as much"
            if gain is not None
            else "",
        ),
        _idle(facts),
        experiment_piece(evidence, "slots_x2", CAUSE),
        experiment_piece(evidence, "low_load", CAUSE),
    )
    missing = []
    if facts.slots is None:
        missing.append("the server's slot limit (its resolved configuration)")
    if gain is None and "slots_x2" not in evidence.experiments:
        missing.append(
            "whether more slots would help: a step log with varying batch, or the experiment slots_x2"
        )
    finding = weigh(
        CAUSE, pieces, None if facts.lost is None else facts.lost.queue, missing=missing, answers=ANSWERS
    )
    return _needs_benefit(finding, pieces)


def _at_limit(facts: Facts) -> Piece | None:
    if facts.at_limit_share is None:
        return None
    held = (
        "a batch holds the slots until its last answer ends"
        if facts.batching == "static"
        else "every slot is taken"
    )
    return threshold(
        "gauges",
        facts.at_limit_share,
        low=0.5,
        high=0.8,
        text=f"{facts.at_limit_share:.0%} of the time that requests wait, {held} (limit {facts.slots})",
    )


def _idle(facts: Facts) -> Piece | None:
    """Slots that a batch holds after their answers ended: requests wait for places that do no work."""
    if facts.batching not in ("static", "dynamic") or facts.idle_share is None or facts.idle_share < 0.2:
        return None
    return Piece(
        "idle slots",
        "for",
        f"{facts.idle_share:.0%} of the slots do no work while requests wait: their batch is not over",
    )


def _needs_benefit(finding: Finding, pieces: list[Piece]) -> Finding:
    """Full slots are only the cause if more would help: without that piece it could as well be overload."""
    benefit = any(
        p.side == "for" and p.source in ("step model", "idle slots", "experiment slots_x2") for p in pieces
    )
    if finding.status != "supported" or benefit:
        return finding
    return Finding(
        finding.cause,
        "unknown",
        finding.share,
        finding.confidence,
        finding.evidence,
        finding.missing,
        finding.answers,
    )
