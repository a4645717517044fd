"""Prefix caching: what prompts have in common at their beginning is computed once."""

from __future__ import annotations

from rooftune.spec import Configuration
from rooftune.techniques.card import Applies, Card, Knob, PredictedEffect, TechniqueContext
from rooftune.techniques.parts import fact, needs_switch
from rooftune.techniques.problems import questions

_WORTH = 0.05
"""Share of the prompts that must be shared for a gain beyond noise."""


def _judge(context: TechniqueContext) -> Applies:
    if context.configuration.get("prefix_cache") not in ("none", None, False):
        hits = fact(context, "prefix_hit_share")
        told = f", {hits:.0%} of prompt tokens hit" if hits is not None else ""
        return Applies(False, f"prefixes are reused already{told}")
    share = fact(context, "shared_prefix_share")
    if share is None:
        return Applies(True, "how much the prompts share was not measured: a run will tell")
    if share < _WORTH:
        return Applies(False, f"{share:.1%} of the prompts begin like another one: too little to reuse")
    return Applies(True, f"{share:.0%} of the prompts' text begins like another one")


def _change(context: TechniqueContext) -> Configuration:
    return {"prefix_cache": "hash"}


def _predict(context: TechniqueContext) -> tuple[PredictedEffect, ...]:
    """Of an unloaded TTFT, the part spent on prompts shrinks by at most the shared share; queueing may shrink more."""
    share, ttft, prefill = (
        fact(context, "shared_prefix_share"),
        fact(context, "ttft_mean"),
        fact(context, "prefill_mean"),
    )
    if share is None or not ttft or prefill is None:
        return ()
    part = min(prefill / ttft, 1.0)
    best = max(1.0 - share, 0.05)
    return (
        PredictedEffect("ttft_mean", min(best, 1.0 - share * part), 1.0 - 0.5 * share * part,
                        f"{share:.0%} of the prompts shared, prefill {part:.0%} of TTFT"),
    )  # fmt: skip


CARD = Card(
    name="prefix_caching",
    title="Prefix caching",
    family="reuse",
    problem=4,
    summary="Keeps the pages of computed prompts under a hash of their tokens; a prompt that begins alike takes the pages and computes only the rest. Pays with system prompts, few-shot headers and conversations.",
    questions=questions(4),
    lossless=True,
    can_worsen=(
        "KV room: kept pages push others out sooner",
        "a little time to hash, where nothing ever hits",
    ),
    evidence_of_active="prompt tokens found in the cache, by counter; cached_tokens of each request",
    source="Zheng et al. 2023 (SGLang, arXiv 2312.07104); Kwon et al. 2023 (arXiv 2309.06180)",
    answers=("cache_miss_prefix", "prefill_compute", "overload", "prefill_interference"),
    applies=needs_switch("prefix_cache", _judge),
    change=_change,
    predict=_predict,
    knobs=(Knob("prefix_cache", ("hash",)),),
    in_engine=True,
)
