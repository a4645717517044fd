"""Quality of one configuration against another, measured through their servers on the same prompts."""

from __future__ import annotations


def quality(work, baseline, final):  # type: ignore
    return None
