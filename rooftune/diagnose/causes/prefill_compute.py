"""prefill_compute: the time to first token is the arithmetic of reading the prompt."""

from __future__ import annotations

from rooftune.diagnose.causes.weigh import experiment_piece, present, threshold, weigh
from rooftune.diagnose.facts import Facts, gather
from rooftune.diagnose.finding import Evidence, Finding

CAUSE = "prefill_compute"
ANSWERS = ("prefix_caching", "packed_weight_kernel", "chunked_prefill", "pd_disaggregation")


def judge(evidence: Evidence, facts: Facts | None = None) -> Finding:
    facts = facts or gather(evidence.run)
    share = None if facts.lost is None else facts.lost.prefill
    served = None
    if facts.prefill is not None and facts.ttft:
        served = facts.prefill / facts.ttft
    linear = reached = None
    model = facts.model
    if model is not None and facts.prompt_tokens and model.per_prefill_token > 0:
        variable = model.per_prefill_token * facts.prompt_tokens
        steps = 1.0
        linear = variable / (variable + model.base * steps) if model.prefill_separable else None
        if facts.roofs.compute_per_prefill_token is not None:
            reached = facts.roofs.compute_per_prefill_token / model.per_prefill_token
    pieces = present(
        threshold(
            "timings",
            served,
            low=0.15,
            high=0.5,
            text=f"processing the prompt is {served:.0%} of the mean time to first token"
            if served is not None
            else "",
        ),
        threshold(
            "step model",
            linear,
            low=0.4,
            high=0.65,
            text=f"{linear:.0%} of a prompt's processing grows with its tokens" if linear is not None else "",
        ),
        threshold(
            "roofs",
            reached,
            low=0.08,
            high=0.25,
            text=f"prompts are processed at {reached:.0%} of the arithmetic roof"
            if reached is not None
            else "",
        ),
        experiment_piece(evidence, "prefill_x2", CAUSE),
        experiment_piece(evidence, "low_load", CAUSE),
    )
    missing = []
    if served is None:
        missing.append("the server's own split of the time to first token into queue and prefill")
    if linear is None and "prefill_x2" not in evidence.experiments:
        missing.append("prompts of clearly different length: the experiment prefill_x2")
    missing.extend(facts.roofs.missing)
    finding = weigh(CAUSE, pieces, share, missing=missing, answers=ANSWERS)
    grows = any(p.side == "for" and p.source in ("step model", "experiment prefill_x2") for p in pieces)
    if finding.status == "supported" and not grows:
        return Finding(
            CAUSE, "unknown", share, finding.confidence, finding.evidence, finding.missing, ANSWERS
        )
    return finding
