"""Non-inferiority of a changed model within the goal's margin.

Passed when the whole 95 % interval keeps the bound, failed when the whole interval breaks it, undecided (None) between. "No
significant difference" is not a pass: it would reward a small sample.
"""

from __future__ import annotations

from collections.abc import Sequence

from rooftune.quality.divergence import Divergence
from rooftune.quality.perplexity import Perplexity
from rooftune.spec.goal import Goal
from rooftune.store.result import Interval, QualityOutcome

DEFAULT_MARGINS = (
    Goal("kl_mean", "<=", 0.02, "plain"),
    Goal("top1_agreement", ">=", 0.97, "share"),
)
"""Where a spec states none. Both are reported as defaults, not as the user's word."""


def judge_quality(
    divergence: Divergence,
    goals: Sequence[Goal] = (),
    *,
    floor_kl: float | None = None,
    perplexity: Perplexity | None = None,
    note: str = "",
) -> QualityOutcome:
    """The outcome against the quality goals (or the default margins)."""
    stated = tuple(goals) or DEFAULT_MARGINS
    readings = {"kl_mean": divergence.kl_mean, "top1_agreement": divergence.agreement}
    verdicts = [within(readings[g.metric], g) for g in stated if g.metric in readings]
    passed = False if False in verdicts else None if None in verdicts or not verdicts else True
    reason = None
    if passed is None:
        open_goals = [g for g in stated if g.metric in readings and within(readings[g.metric], g) is None]
        reason = (
            f"{divergence.positions} positions in {divergence.documents} documents leave {open_goals[0].metric} undecided; "
            "more text would decide"
            if open_goals
            else "no quality goal could be read"
        )
    margin = " and ".join(f"{g.metric} {g.sign} {g.target:g}" for g in stated)
    told = (
        f"KL {divergence.kl_mean.value:.4f} (at most {divergence.kl_mean.high:.4f}), top-1 agreement "
        f"{divergence.agreement.value:.2%} (at least {divergence.agreement.low:.2%}) on {divergence.positions} positions"
    )
    if perplexity is not None:
        told += f", perplexity {perplexity.base:.2f} -> {perplexity.changed:.2f}"
    word = {True: "kept within", False: "outside", None: "not decided against"}[passed]
    default = "" if goals else "the default margin "
    detail = f"{told}; {note}" if note else told
    return QualityOutcome(
        kl_mean=divergence.kl_mean.value,
        kl_high=divergence.kl_mean.high,
        kl_p99=divergence.kl_p99,
        top1_agreement=divergence.agreement.value,
        top1_low=divergence.agreement.low,
        tokens=divergence.positions,
        floor_kl=floor_kl,
        passed=passed,
        statement=f"{word} {default}{margin}",
        reason=reason,
        detail=detail,
    )


def within(reading: Interval, goal: Goal) -> bool | None:
    """True: the whole interval keeps the bound. False: none of it does. None: part of it."""
    kept = [goal.met(reading.low), goal.met(reading.high)]
    return True if all(kept) else None if any(kept) else False
