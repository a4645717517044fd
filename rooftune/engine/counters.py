"""What the scheduler counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class SchedulerCounters:
    """What happened since the start; every value only grows.

    prompt_tokens: tokens of prompts that were completed, cached ones included; prefill_tokens: prompt tokens
    computed, recomputed ones included; lost_tokens: tokens computed again after a preemption;
    joins_while_running: requests admitted while others ran; prompts_split: prompts computed in several steps;
    mixed_steps: steps with prompt tokens and decode rows; idle_row_steps: slots of finished rows that a static
    or dynamic batch kept empty, summed over steps; batch_sizes: how many requests were admitted together.
    """

    steps: int = 0
    prompt_tokens: int = 0
    prefill_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    lost_tokens: int = 0
    joins_while_running: int = 0
    prompts_split: int = 0
    mixed_steps: int = 0
    budget_full_steps: int = 0
    idle_row_steps: int = 0
    row_steps: int = 0
    peak_running: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    batch_sizes: Counter[int] = field(default_factory=Counter)
