"""Admission policies by name, and the pure functions that share budget and pages."""

from __future__ import annotations

from rooftune.engine.policies.continuous import ContinuousBatching
from rooftune.engine.policies.dynamic import DynamicBatching
from rooftune.engine.policies.fit import cached_positions, fits, pages_for, watermark
from rooftune.engine.policies.plan import budget_admits, budget_claimed, share_budget
from rooftune.engine.policies.state import Admission, AdmissionPolicy, AdmissionState, Runnable, Waiting
from rooftune.engine.policies.static import StaticBatching
from rooftune.errors import WrongInput

ADMISSION: dict[str, AdmissionPolicy] = {
    policy.name: policy for policy in (StaticBatching(), DynamicBatching(), ContinuousBatching())
}


def admission_policy(name: str) -> AdmissionPolicy:
    """The admission policy called ``name``; WrongInput names the known ones."""
    if name not in ADMISSION:
        raise WrongInput(f"batching is {name!r}; it must be one of {', '.join(sorted(ADMISSION))}")
    return ADMISSION[name]


__all__ = [
    "ADMISSION",
    "Admission",
    "AdmissionPolicy",
    "AdmissionState",
    "Runnable",
    "Waiting",
    "admission_policy",
    "budget_admits",
    "budget_claimed",
    "cached_positions",
    "fits",
    "pages_for",
    "share_budget",
    "watermark",
]
