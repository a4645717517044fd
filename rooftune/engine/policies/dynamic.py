"""Dynamic batching: as static, but a partial batch waits up to ``batch_wait`` seconds for more requests.

The wait counts from the arrival of the oldest request, so no request is held by the batcher longer than that.
"""

from __future__ import annotations

from rooftune.engine.policies.state import Admission, AdmissionState, leading_resumed


class DynamicBatching:
    name = "dynamic"
    holds_rows = True

    def __call__(self, state: AdmissionState) -> Admission:
        if state.running:
            return Admission(leading_resumed(state.waiting), within_budget=False)
        count = min(state.slots, len(state.waiting))
        if 0 < count < state.slots and not state.waiting[0].resumed:
            due = min(request.arrival for request in state.waiting) + state.batch_wait
            if state.now < due:
                return Admission(0, wake=due, within_budget=False)
        return Admission(count, within_budget=False)
