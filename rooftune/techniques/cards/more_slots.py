"""More slots: more sequences run at once."""

from __future__ import annotations

from rooftune.spec import Configuration
from rooftune.techniques.card import Applies, Card, Knob, TechniqueContext
from rooftune.techniques.parts import fact, needs_switch, no_prediction, setting
from rooftune.techniques.problems import questions


def _judge(context: TechniqueContext) -> Applies:
    slots, most, waiting = (
        setting(context, "slots"),
        fact(context, "running_max"),
        fact(context, "waiting_mean"),
    )
    if slots is None:
        return Applies(False, "the number of slots is not told")
    if most is not None and most < slots:
        return Applies(
            False, f"the slots are never all in use: at most {most:.0f} of {slots:.0f} sequences ran at once"
        )
    if waiting is not None and waiting < 0.05:
        return Applies(False, f"no request waits for a slot ({waiting:.2f} on average)")
    fits = _fits(context)
    if fits is not None and fits <= slots:
        return Applies(
            False, f"the KV pool holds {fits:.0f} sequences of this length, and there are {slots:.0f} slots"
        )
    told = f", {waiting:.1f} requests wait on average" if waiting is not None else ""
    return Applies(True, f"all {slots:.0f} slots are in use{told}")


def _fits(context: TechniqueContext) -> int | None:
    """Sequences of the longest prompt and a mean answer that the KV pool holds."""
    pool, prompt = setting(context, "pool_tokens"), fact(context, "prompt_tokens_max")
    output = fact(context, "output_tokens_mean")
    return int(pool // (prompt + output)) if pool and prompt and output else None


def _change(context: TechniqueContext) -> Configuration:
    """Four times the slots, at most what the KV pool holds; the token budget must cover a token for each."""
    slots = setting(context, "slots")
    if slots is None:
        return {}
    fits = _fits(context)
    wanted = int(slots) * 4 if fits is None else max(min(int(slots) * 4, fits), int(slots) + 1)
    change: Configuration = {"slots": wanted}
    budget = setting(context, "token_budget")
    if budget is not None and budget < wanted:
        change["token_budget"] = wanted
    return change


CARD = Card(
    name="more_slots",
    title="More slots",
    family="batching",
    problem=5,
    summary="Lets more sequences run at once. Each step reads the weights once for all of them, so tokens per second rise until arithmetic or KV binds; each token waits for a somewhat longer step.",
    questions=questions(5),
    lossless=True,
    can_worsen=("TPOT: a step with more rows takes longer", "KV: more sequences hold their context at once"),
    evidence_of_active="most sequences that ran at once, above the old number of slots",
    source="the method, problem 5; Pope et al. 2022 (arXiv 2211.05102)",
    answers=("queue_slots", "overload", "decode_bandwidth"),
    applies=needs_switch("slots", _judge),
    change=_change,
    predict=no_prediction,
    knobs=(Knob("slots", (16, 8, 32)),),
    in_engine=True,
)
