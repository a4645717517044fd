"""How full the slots were, weighted by time, from the step log or from sampled gauges."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rooftune.diagnose.step_model import Step, begin_of, seconds_of
from rooftune.store.run import Run


def step_spans(steps: Sequence[Step]) -> list[float]:
    """Seconds from each step's begin to the next's, the gap counted only while work was there."""
    result = []
    for step, after in pairwise(steps):
        apart = (begin_of(after) - begin_of(step)) * 1e-9
        busy = (
            step["waiting"] > 0
            or after["running"] > after.get("finished_prompts", 0.0)
            or step["running"] > 1
        )
        result.append(max(apart, seconds_of(step)) if busy else seconds_of(step))
    result += [seconds_of(s) for s in steps[-1:]]
    return result


def slot_gauges(
    run: Run, steps: Sequence[Step], slots: int | None, batching: str | None
) -> dict[str, float | None]:
    running, waiting, weights = _gauge_arrays(run, steps)
    if running is None or waiting is None or weights is None or weights.sum() <= 0:
        return dict.fromkeys(("running_mean", "waiting_mean", "waiting_share", "at_limit_share"))
    held = running >= (slots or np.inf)
    if batching in ("static", "dynamic"):
        # Slots of a batch stay taken until its last sequence ends, though fewer sequences run.
        held = running > 0
    waits = waiting > 0
    total = float(weights.sum())
    waited = float(weights[waits].sum())
    return {
        "running_mean": float((running * weights).sum() / total),
        "waiting_mean": float((waiting * weights).sum() / total),
        "waiting_share": waited / total,
        "at_limit_share": float(weights[waits & held].sum() / waited)
        if waited > 0 and slots is not None
        else None,
    }


def _gauge_arrays(run: Run, steps: Sequence[Step]) -> tuple[Any, Any, Any]:
    if steps:
        return (
            np.array([s["running"] for s in steps]),
            np.array([s["waiting"] for s in steps]),
            np.array(step_spans(steps)),
        )
    series = {s.name: s for s in run.series}
    if "running" not in series or "waiting" not in series:
        return None, None, None
    running, waiting = np.array(series["running"].values), np.array(series["waiting"].values)
    size = min(len(running), len(waiting))
    busy = running[:size] > 0
    return running[:size][busy], waiting[:size][busy], np.ones(int(busy.sum()))
