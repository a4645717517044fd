"""Evidence of waiting that queue_slots and overload share."""

from __future__ import annotations

from rooftune.diagnose.causes.weigh import Piece, threshold
from rooftune.diagnose.facts import Facts


def waiting_pieces(facts: Facts) -> list[Piece]:
    """The queue by the server's timings, and by Little's law from the waiting gauge: independent of each other."""
    pieces = []
    for source, seconds in (("timings", facts.queue), ("Little's law", facts.queue_by_little)):
        if seconds is None or not facts.ttft:
            continue
        share = min(1.0, seconds / facts.ttft)
        piece = threshold(
            source,
            share,
            low=0.1,
            high=0.35,
            text=f"waiting in the queue is {share:.0%} of the mean time to first token",
        )
        if piece is not None and (source == "timings" or facts.queue is None):
            pieces.append(piece)
    return pieces


def pool_piece(facts: Facts) -> Piece | None:
    """A full pool is another cause: requests then wait for pages."""
    if facts.kv_used_high is None or facts.kv_used_high < 0.95:
        return None
    return Piece("pool", "against", f"the KV pool is full ({facts.kv_used_high:.0%} at its 95th percentile)")
