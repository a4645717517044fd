"""kv_capacity: the KV pool is full and requests wait for pages."""

from __future__ import annotations

from rooftune.diagnose.causes.queueing import waiting_pieces
from rooftune.diagnose.causes.weigh import Piece, experiment_piece, present, threshold, weigh
from rooftune.diagnose.facts import Facts, gather
from rooftune.diagnose.finding import Evidence, Finding

CAUSE = "kv_capacity"
ANSWERS = ("kv_quantization", "kv_compression", "more_memory", "fewer_slots")


def judge(evidence: Evidence, facts: Facts | None = None) -> Finding:
    facts = facts or gather(evidence.run)
    free = None
    if facts.at_limit_share is not None:
        free = Piece(
            "gauges",
            "for" if facts.at_limit_share < 0.5 else "against" if facts.at_limit_share > 0.8 else "neither",
            f"while requests wait, slots are full {facts.at_limit_share:.0%} of the time",
        )
    pieces = present(
        threshold(
            "pool",
            facts.kv_used_high,
            low=0.8,
            high=0.92,
            text=f"the KV pool is {facts.kv_used_high:.0%} full at its 95th percentile"
            if facts.kv_used_high is not None
            else "",
        ),
        free,
        *waiting_pieces(facts),
        experiment_piece(evidence, "slots_x2", CAUSE),
    )
    missing = () if facts.kv_used_high is not None else ("how full the KV pool is",)
    finding = weigh(
        CAUSE, pieces, None if facts.lost is None else facts.lost.queue, missing=missing, answers=ANSWERS
    )
    if finding.status == "supported" and not any(p.source == "pool" and p.side == "for" for p in pieces):
        return Finding(CAUSE, "unknown", finding.share, None, finding.evidence, finding.missing, ANSWERS)
    return finding
