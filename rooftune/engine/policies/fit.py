"""When a request fits in the page pool, and when it never will."""

from __future__ import annotations

import math

WATERMARK_SHARE = 0.05
"""Share of the pool that admission leaves free, so that the running sequences can grow before one is preempted."""


def pages_for(tokens: int, page_size: int) -> int:
    """Pages that hold ``tokens`` tokens."""
    return -(-tokens // page_size)


def watermark(total: int) -> int:
    """Pages that admission leaves free in a pool of ``total`` pages."""
    return math.ceil(total * WATERMARK_SHARE)


def fits(needed: int, available: int, total: int, running: int) -> bool:
    """May a request that takes ``needed`` of the ``available`` pages join?

    The whole prompt must fit: prompts that are admitted piecemeal fill the pool and then evict each other.
    If nothing runs the watermark is ignored, else a long prompt could wait for ever.
    """
    if running == 0:
        return needed <= available
    return needed + watermark(total) <= available


def cached_positions(prompt: int, maximum_tokens: int) -> int:
    """Most positions that a request ever holds in the pool: its last token is sampled but never computed."""
    return prompt + maximum_tokens - 1
