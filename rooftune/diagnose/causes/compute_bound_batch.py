"""compute_bound_batch: the batch is so large that arithmetic, not bytes, sets the step's time."""

from __future__ import annotations

from rooftune.diagnose.causes.decoding import decode_share, flat_piece
from rooftune.diagnose.causes.weigh import experiment_piece, present, threshold, weigh
from rooftune.diagnose.facts import Facts, gather
from rooftune.diagnose.finding import Evidence, Finding

CAUSE = "compute_bound_batch"
ANSWERS = ("packed_weight_kernel", "kernel_vectorization", "kernel_parallelization", "replicas")


def judge(evidence: Evidence, facts: Facts | None = None) -> Finding:
    facts = facts or gather(evidence.run)
    computed = None
    if facts.decode_step and facts.decode_rows and facts.roofs.compute_per_row is not None:
        computed = facts.roofs.compute_per_row * facts.decode_rows / facts.decode_step
    lost = decode_share(facts)
    grows = None if facts.flat_share is None else 1.0 - facts.flat_share
    share = None if lost is None else lost * (grows if grows is not None else min(1.0, computed or 0.0))
    pieces = present(
        flat_piece(facts, inverse=True),
        threshold(
            "roofs",
            computed,
            low=0.15,
            high=0.35,
            text=f"the arithmetic of its rows at the probed peak is {computed:.0%} of a decode step"
            if computed
            else "",
        ),
        experiment_piece(evidence, "batch_x2", CAUSE),
    )
    return weigh(CAUSE, pieces, share, missing=facts.roofs.missing, answers=ANSWERS)
