"""What a policy may look at. Policies are pure: they see these values and return a decision, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Waiting(Protocol):
    """A request that waits for a slot."""

    @property
    def arrival(self) -> float:
        """When it came, seconds of the clock that is passed to the policy."""
        ...

    @property
    def resumed(self) -> bool:
        """It ran before and was preempted."""
        ...


class Runnable(Protocol):
    """A sequence that holds a slot."""

    @property
    def remaining(self) -> int:
        """Tokens that are known but not yet computed; at least 1."""
        ...

    @property
    def decoding(self) -> bool:
        """Its prompt is computed: it wants exactly the one token that it sampled last."""
        ...


@dataclass(frozen=True, slots=True)
class AdmissionState:
    """waiting: in the order in which they would be admitted; now, batch_wait: seconds."""

    waiting: Sequence[Waiting]
    running: int
    slots: int
    now: float
    batch_wait: float


@dataclass(frozen=True, slots=True)
class Admission:
    """At most ``count`` requests from the head of the queue may join now.

    wake: clock time at which to ask again although nothing new has come, or None.
    within_budget: a request joins only if it gets tokens in this very step (it would hold pages for nothing);
    a policy that forms whole batches sets it False.
    """

    count: int
    wake: float | None = None
    within_budget: bool = True


class AdmissionPolicy(Protocol):
    """Decides how many of the waiting requests join the running ones in this step."""

    name: str
    holds_rows: bool
    """The slots of finished rows stay idle until the whole batch is done."""

    def __call__(self, state: AdmissionState) -> Admission: ...


def leading_resumed(waiting: Sequence[Waiting]) -> int:
    """How many requests at the head of the queue were preempted out of the batch that is running."""
    count = 0
    for request in waiting:
        if not request.resumed:
            break
        count += 1
    return count
