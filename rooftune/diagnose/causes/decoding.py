"""Evidence about decode steps that several causes share."""

from __future__ import annotations

from rooftune.diagnose.causes.weigh import Piece, threshold
from rooftune.diagnose.facts import Facts

FLAT_LOW, FLAT_HIGH = 0.35, 0.55


def decode_share(facts: Facts) -> float | None:
    """Share of the lost time in decode steps proper: others' prompts inside the gap between tokens are not decode."""
    if facts.lost is None:
        return None
    pure = 1.0
    if facts.tpot and facts.decode_step:
        pure = min(1.0, facts.decode_step / facts.tpot)
    return facts.lost.decode * pure


def flat_piece(facts: Facts, inverse: bool = False) -> Piece | None:
    """Does a step's time grow with its rows? From the run's own variation of the batch."""
    flat = facts.flat_share
    if flat is None:
        return None
    return threshold(
        "step model",
        flat,
        low=FLAT_LOW,
        high=FLAT_HIGH,
        text=f"{flat:.0%} of a decode step does not depend on how many sequences it serves",
        inverse=inverse,
    )
