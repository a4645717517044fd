"""Continuous batching: a waiting request joins at any step in which a slot is free."""

from __future__ import annotations

from rooftune.engine.policies.state import Admission, AdmissionState


class ContinuousBatching:
    name = "continuous"
    holds_rows = False

    def __call__(self, state: AdmissionState) -> Admission:
        return Admission(max(0, min(state.slots - state.running, len(state.waiting))))
