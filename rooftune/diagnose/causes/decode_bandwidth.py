"""decode_bandwidth: a decode step takes as long as reading the weights, whatever the batch."""

from __future__ import annotations

from rooftune.diagnose.causes.decoding import decode_share, flat_piece
from rooftune.diagnose.causes.weigh import experiment_piece, present, threshold, weigh
from rooftune.diagnose.facts import Facts, gather
from rooftune.diagnose.finding import Evidence, Finding

CAUSE = "decode_bandwidth"
ANSWERS = ("packed_weight_kernel", "weight_quantization", "speculative_decoding", "ngram_speculation")


def judge(evidence: Evidence, facts: Facts | None = None) -> Finding:
    facts = facts or gather(evidence.run)
    share = roofed = None
    if facts.decode_step and facts.roofs.weights is not None:
        roofed = facts.roofs.weights / facts.decode_step
        lost = decode_share(facts)
        share = None if lost is None else lost * min(1.0, roofed)
    pieces = present(
        threshold(
            "roofs",
            roofed,
            low=0.35,
            high=0.5,
            text=f"reading the weights once at the probed bandwidth is {roofed:.0%} of a decode step"
            if roofed
            else "",
        ),
        flat_piece(facts),
        experiment_piece(evidence, "batch_x2", CAUSE),
        experiment_piece(evidence, "context_x2", CAUSE),
    )
    missing = list(facts.roofs.missing)
    if facts.flat_share is None and "batch_x2" not in evidence.experiments:
        missing.append("step times at another batch size: the experiment batch_x2")
    finding = weigh(CAUSE, pieces, share, missing=missing, answers=ANSWERS)
    if finding.status == "supported" and roofed is None:
        # Without roofs, flat in the batch is as true of launch overhead.
        return Finding(CAUSE, "unknown", share, None, finding.evidence, finding.missing, ANSWERS)
    return finding
