"""Arrivals, lengths, prompts: one saved, seeded Schedule."""

from rooftune.workload.schedule import (
    Entry,
    Schedule,
    build_schedule,
    load_schedule,
    save_schedule,
    warmup_schedule,
)

__all__ = ["Entry", "Schedule", "build_schedule", "load_schedule", "save_schedule", "warmup_schedule"]
