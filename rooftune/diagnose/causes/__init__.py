"""Judges by cause id; one file each."""

from __future__ import annotations

from typing import Protocol

from rooftune.diagnose.causes import (
    compute_bound_batch,
    decode_bandwidth,
    healthy,
    kv_capacity,
    launch_overhead,
    overload,
    prefill_compute,
    queue_slots,
)
from rooftune.diagnose.facts import Facts
from rooftune.diagnose.finding import Evidence, Finding


class Judge(Protocol):
    def __call__(self, evidence: Evidence, facts: Facts | None = None) -> Finding: ...


JUDGES: dict[str, Judge] = {
    module.CAUSE: module.judge
    for module in (
        queue_slots,
        overload,
        kv_capacity,
        prefill_compute,
        decode_bandwidth,
        compute_bound_batch,
        launch_overhead,
        healthy,
    )
}
"""`unknown` has no judge: it is what is left (see `diagnose.py`)."""
