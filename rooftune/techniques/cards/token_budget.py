"""Token budget: how many new tokens one step may compute."""

from __future__ import annotations

from rooftune.spec import Configuration
from rooftune.techniques.card import Applies, Card, Knob, TechniqueContext
from rooftune.techniques.parts import fact, needs_switch, no_prediction, setting
from rooftune.techniques.problems import questions

_TAIL = 1.5
"""TPOT at p95 over p50 from which steps with prompt pieces count as stalls."""


def _judge(context: TechniqueContext) -> Applies:
    if context.configuration.get("chunked_prefill") is False:
        return Applies(False, "the budget cuts prompts only with chunked prefill on")
    if setting(context, "token_budget") is None:
        return Applies(False, "the token budget is not told")
    smaller, tail = _smaller(context), fact(context, "tpot_tail")
    budget, longest = setting(context, "token_budget"), fact(context, "prompt_tokens_max")
    if smaller:
        told = (
            f"TPOT at p95 is {tail:.2g} times that at p50"
            if tail is not None
            else f"the cause is {context.cause}"
        )
        return Applies(True, f"{told}: smaller pieces stall answers less")
    if budget is not None and longest is not None and longest <= budget:
        return Applies(
            False, f"every prompt (at most {longest:.0f} tokens) fits into one step of {budget:.0f}"
        )
    if context.cause == "prefill_compute" or (fact(context, "prefill_time_share") or 0.0) > 0.3:
        return Applies(True, "prompts take much of the step time: larger pieces read the weights less often")
    return Applies(False, "neither stalls of answers nor the reading of prompts asks for another budget")


def _smaller(context: TechniqueContext) -> bool:
    tail = fact(context, "tpot_tail")
    return context.cause == "prefill_interference" or (tail is not None and tail > _TAIL)


def _change(context: TechniqueContext) -> Configuration:
    """Half or twice the budget; never below one token for each slot."""
    budget, slots = setting(context, "token_budget"), setting(context, "slots")
    if budget is None:
        return {}
    wanted = int(budget) // 2 if _smaller(context) else int(budget) * 2
    return {"token_budget": max(wanted, int(slots or 1), 16)}


CARD = Card(
    name="token_budget",
    title="Token budget of a step",
    family="scheduling",
    problem=6,
    summary="Bounds the new tokens of one step. A smaller budget makes steps shorter, so answers flow evenly; a larger one reads prompts in fewer steps.",
    questions=questions(6),
    lossless=True,
    can_worsen=("smaller: TTFT of long prompts", "larger: the longest gap between tokens"),
    evidence_of_active="steps that filled the budget, by counter",
    source="Agrawal et al. 2024 (Sarathi-Serve, arXiv 2403.02310)",
    answers=("prefill_interference", "prefill_compute", "head_of_line"),
    applies=needs_switch("token_budget", _judge),
    change=_change,
    predict=no_prediction,
    knobs=(Knob("token_budget", (128, 512, 64, 1024)),),
    in_engine=True,
)
