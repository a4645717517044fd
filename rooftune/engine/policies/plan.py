"""The token budget of a step as a pure function: decodes first, the rest to prompts in order of admission."""

from __future__ import annotations

from collections.abc import Sequence

from rooftune.engine.policies.state import Runnable


def share_budget(running: Sequence[Runnable], budget: int, chunked: bool) -> list[int]:
    """Tokens that each running sequence computes in this step, in the order of ``running``.

    chunked: every decode gets its token, prompts get what is left, the last of them perhaps a part.
    Not chunked: prompts are computed whole, as many as fit in the budget, in a step without decodes; the first
    is computed even if it alone exceeds the budget. A step has decodes only when no prompt is left.
    The sum is at most ``budget`` but for that one case, and never 0 while something runs (budget >= 1).
    """
    shares = [0] * len(running)
    if chunked:
        return _share_chunked(running, budget, shares)
    prompts = [index for index, sequence in enumerate(running) if not sequence.decoding]
    left = budget
    if not prompts:
        for index in range(min(budget, len(running))):
            shares[index] = 1
        return shares
    for order, index in enumerate(prompts):
        wanted = running[index].remaining
        if wanted > left and order > 0:
            break
        shares[index] = wanted
        left -= wanted
    return shares


def _share_chunked(running: Sequence[Runnable], budget: int, shares: list[int]) -> list[int]:
    left = budget
    for index, sequence in enumerate(running):
        if sequence.decoding and left > 0:
            shares[index] = 1
            left -= 1
    for index, sequence in enumerate(running):
        if not sequence.decoding and left > 0:
            shares[index] = min(sequence.remaining, left)
            left -= shares[index]
    return shares


def budget_claimed(running: Sequence[Runnable], chunked: bool) -> int:
    """Tokens that the running sequences would take from this step's budget if it were unlimited."""
    if chunked:
        return sum(sequence.remaining for sequence in running)
    return sum(sequence.remaining for sequence in running if not sequence.decoding)


def budget_admits(remaining: int, claimed: int, budget: int, chunked: bool) -> bool:
    """Would a new sequence with ``remaining`` tokens to compute get any of them in this step?"""
    if chunked:
        return claimed < budget
    return claimed == 0 or claimed + remaining <= budget
