"""A technique counts only when it was on: requested, active, reason, and the counter that moved."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """State of one switch of a runtime during a run.

    ``active`` is None when the runtime gives no evidence either way; ``counter`` names the evidence and ``moved``
    is by how much it rose during the run (None where it could not be read).
    """

    switch: str
    requested: Any
    active: bool | None
    reason: str
    counter: str | None = None
    moved: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
