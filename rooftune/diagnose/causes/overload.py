"""overload: more is offered than the machine can serve, and no single limit that could be lifted explains it."""

from __future__ import annotations

from rooftune.diagnose.causes.queue_slots import USEFUL_GAIN, USELESS_GAIN
from rooftune.diagnose.causes.queueing import pool_piece, waiting_pieces
from rooftune.diagnose.causes.weigh import Piece, experiment_piece, present, threshold, weigh
from rooftune.diagnose.facts import Facts, gather
from rooftune.diagnose.finding import Evidence, Finding

CAUSE = "overload"
ANSWERS = ("prefix_caching", "packed_weight_kernel", "weight_quantization", "admission_control", "replicas")


def judge(evidence: Evidence, facts: Facts | None = None) -> Finding:
    facts = facts or gather(evidence.run)
    pieces = present(
        *waiting_pieces(facts),
        _made_of(facts), _growing(facts), _limit(facts), pool_piece(facts),
        experiment_piece(evidence, "slots_x2", CAUSE), experiment_piece(evidence, "low_load", CAUSE),
    )  # fmt: skip
    missing = []
    if _growing(facts) is None:
        missing.append("a longer run: whether the queue keeps growing cannot be seen in so few requests")
    finding = weigh(
        CAUSE, pieces, None if facts.lost is None else facts.lost.queue, missing=missing, answers=ANSWERS
    )
    no_limit = any(p.side == "for" and p.source in ("step model", "experiment slots_x2") for p in pieces)
    growing = any(p.side == "for" and p.source == "growth" for p in pieces)
    if finding.status == "supported" and not (no_limit and growing):
        return Finding(
            CAUSE,
            "unknown",
            finding.share,
            finding.confidence,
            finding.evidence,
            finding.missing,
            finding.answers,
        )
    return finding


def _made_of(facts: Facts) -> Piece | None:
    """What fills the machine: it says which technique raises the capacity."""
    if facts.prefill_share is None:
        return None
    text = f"the server spends {facts.prefill_share:.0%} of its time on prompts, the rest on answers"
    return Piece("step model", "neither", text)


def _growing(facts: Facts) -> Piece | None:
    """The queue of an overloaded server grows as long as requests come; a busy but stable one swings."""
    if facts.growth is None or facts.busy_share is None:
        return None
    text = (
        f"the server computes {facts.busy_share:.0%} of the time and the last third of requests waits "
        f"{facts.growth:.1f} times as long for its first token as the first third"
    )
    if facts.busy_share >= 0.8 and facts.growth >= 1.5:
        return Piece("growth", "for", text)
    return Piece("growth", "against" if facts.busy_share < 0.7 or facts.growth < 0.8 else "neither", text)


def _limit(facts: Facts) -> Piece | None:
    """No slot limit that binds, or one that would not matter if it were lifted."""
    gain = facts.gain_of_doubling()
    if facts.at_limit_share is not None and facts.at_limit_share < 0.5:
        return Piece(
            "step model",
            "for",
            f"requests wait though slots are free ({facts.at_limit_share:.0%} of the time full)",
        )
    if gain is None:
        return None
    return threshold(
        "step model",
        gain,
        low=USELESS_GAIN,
        high=USEFUL_GAIN,
        text=f"twice the sequences at once would serve only {gain:.2f} times as much"
        if gain < USEFUL_GAIN
        else f"twice the sequences at once would serve {gain:.2f} times as much: slots are a limit",
        inverse=True,
    )
