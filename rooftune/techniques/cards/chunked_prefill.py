"""Chunked prefill: a prompt is computed in pieces beside the decodes."""

from __future__ import annotations

from rooftune.spec import Configuration
from rooftune.techniques.card import Applies, Card, Knob, TechniqueContext
from rooftune.techniques.parts import fact, needs_switch, no_prediction
from rooftune.techniques.problems import questions


def _judge(context: TechniqueContext) -> Applies:
    if context.configuration.get("chunked_prefill") is not False:
        return Applies(False, "prompts are computed in pieces beside the decodes already")
    longest, share = fact(context, "prefill_step_max"), fact(context, "prefill_time_share")
    if share is not None and share < 0.02:
        return Applies(False, f"prompts take {share:.1%} of the step time: there is nothing to split")
    told = f"; the longest took {longest:.2g} s" if longest is not None else ""
    return Applies(
        True, f"whole prompts are computed in steps of their own, and answers wait meanwhile{told}"
    )


def _change(context: TechniqueContext) -> Configuration:
    return {"chunked_prefill": True}


CARD = Card(
    name="chunked_prefill",
    title="Chunked prefill",
    family="scheduling",
    problem=6,
    summary="Computes a prompt in pieces of the token budget, in the same steps as the decodes. No answer stalls behind a long prompt; the answer of problem 6 inside one instance.",
    questions=questions(6),
    lossless=True,
    can_worsen=(
        "TTFT of the long prompt itself: more steps, and the weights are read for each",
        "TPOT of others while a piece is in their step",
    ),
    evidence_of_active="prompts that were split, and steps with prompt and answer tokens together, by counter",
    source="Agrawal et al. 2024 (Sarathi-Serve, arXiv 2403.02310)",
    answers=("prefill_interference", "head_of_line"),
    applies=needs_switch("chunked_prefill", _judge),
    change=_change,
    predict=no_prediction,
    knobs=(Knob("token_budget", (256, 128, 512)),),
    in_engine=True,
)
