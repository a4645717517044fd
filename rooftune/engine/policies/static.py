"""Static batching: a batch is formed only when the engine is idle and runs until its last row is done.

The batch starts with what is waiting at that moment, at most ``slots`` rows, and never waits for more to come:
so it cannot wait for ever, and a lone request is a batch of one. The slots of rows that finish early are not
reused; those rows are not computed either, so what is lost is the slot, not arithmetic (idle row-steps).
A row that was preempted may come back at any time: it belongs to the running batch.
"""

from __future__ import annotations

from rooftune.engine.policies.state import Admission, AdmissionState, leading_resumed


class StaticBatching:
    name = "static"
    holds_rows = True

    def __call__(self, state: AdmissionState) -> Admission:
        if state.running:
            return Admission(leading_resumed(state.waiting), within_budget=False)
        return Admission(min(state.slots, len(state.waiting)), within_budget=False)
