"""launch_overhead: a step costs much however little it moves or computes (launches, interpreter, host work)."""

from __future__ import annotations

from rooftune.diagnose.causes.decoding import decode_share, flat_piece
from rooftune.diagnose.causes.weigh import Piece, experiment_piece, present, threshold, weigh
from rooftune.diagnose.facts import Facts, gather
from rooftune.diagnose.finding import Evidence, Finding

CAUSE = "launch_overhead"
ANSWERS = ("kernel_fusion", "compiler", "more_slots")


def judge(evidence: Evidence, facts: Facts | None = None) -> Finding:
    facts = facts or gather(evidence.run)
    floor = None
    share = None
    if facts.decode_step and facts.decode_rows:
        floor = facts.roofs.decode_floor(facts.decode_rows, facts.decode_context or 0.0)
    excess = None
    if floor is not None and facts.decode_step:
        base = facts.decode_step if facts.model is None or not facts.model.separable else facts.model.base
        # What the step costs beyond its roof and does not grow with the work.
        excess = max(0.0, base - (facts.roofs.weights or 0.0)) / facts.decode_step
    host = facts.host_share
    lost = decode_share(facts)
    explained = max((x for x in (excess, host) if x is not None), default=None)
    if lost is not None and explained is not None:
        share = lost * min(1.0, explained)
    pieces = present(
        threshold(
            "roofs",
            excess,
            low=0.25,
            high=0.5,
            text=f"{excess:.0%} of a decode step is above the bytes and arithmetic it needs and the same at any batch"
            if excess is not None
            else "",
        ),
        None
        if host is None or host < 0.3
        else Piece("host time", "for", f"{host:.0%} of step time is outside the forward pass"),
        flat_piece(facts),
        _kernels(facts),
        experiment_piece(evidence, "batch_x2", CAUSE),
        experiment_piece(evidence, "prefill_x2", CAUSE),
    )
    missing = list(facts.roofs.missing)
    if host is None:
        missing.append("the server's own seconds in the forward pass, sampling and scheduling")
    if facts.flat_share is None and "batch_x2" not in evidence.experiments:
        missing.append("step times at another batch size: the experiment batch_x2")
    finding = weigh(CAUSE, pieces, share, missing=missing, answers=ANSWERS)
    if finding.status == "supported" and excess is None and host is None:
        return Finding(CAUSE, "unknown", share, None, finding.evidence, finding.missing, ANSWERS)
    return finding


def _kernels(facts: Facts) -> Piece | None:
    """Slow kernels look alike, but then prompts are far from their roof as well."""
    slope = None if facts.model is None else facts.model.per_prefill_token
    roof = facts.roofs.compute_per_prefill_token
    if not slope or roof is None or facts.model is None or not facts.model.prefill_separable:
        return None
    reached = roof / slope
    if reached >= 0.25:
        return Piece(
            "prompt kernels",
            "for",
            f"prompts reach {min(reached, 1.0):.0%} of the arithmetic roof: kernels are not slow",
        )
    if reached < 0.08:
        return Piece(
            "prompt kernels",
            "against",
            f"prompts reach {reached:.0%} of the arithmetic roof: kernels are slow",
        )
    return None
