"""An experiment: an intervention on a server that we may command, with its signature stated before it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from rooftune.diagnose.facts import Facts
from rooftune.store.run import Run

Reading = Literal["for", "against", "neither"]


class Bench(Protocol):
    """A server under our command, as experiments need it."""

    permissions: frozenset[str]

    def burst(self, count: int, input_tokens: int, output_tokens: int, concurrency: int) -> Run:
        """``count`` requests with fresh prompts of these lengths, ``concurrency`` of them open at once."""
        ...

    def replay(self) -> Run | None:
        """The run's own load again with the same arrival times; None where its schedule is not at hand."""
        ...

    def restarted(self, change: Mapping[str, Any]) -> AbstractContextManager[Bench]:
        """The same server with other switches; the first is stopped while the other runs if memory asks for it."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an experiment showed. ``observed``: numbers by name (seconds, ratios); ``reading``: what it says of each cause."""

    name: str
    signature: dict[str, str]
    observed: dict[str, float]
    reading: dict[str, Reading]
    statement: str
    failed: str | None = None
    """Why it could not be done; the reading is then empty."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Experiment:
    """``signature``: cause -> what must be seen if that cause is true, written before anything runs."""

    name: str
    title: str
    separates: tuple[str, ...]
    signature: dict[str, str]
    possible: Callable[[Facts], str | None]
    """None, or why it cannot be done here."""
    perform: Callable[[Bench, Run, Facts], Outcome]
    needs: frozenset[str] = field(default=frozenset({"load"}))

    def refused(self, bench: Bench, facts: Facts) -> str | None:
        lacking = self.needs - bench.permissions
        if lacking:
            return f"needs leave to {', '.join(sorted(lacking))}"
        return self.possible(facts)


def by_ratio(
    ratio: float, *, low: float, high: float, if_low: Mapping[str, Reading], if_high: Mapping[str, Reading]
) -> dict[str, Reading]:
    """Reading from a ratio: one set of causes below ``low``, the other above ``high``, nothing between."""
    if ratio <= low:
        return dict(if_low)
    if ratio >= high:
        return dict(if_high)
    return dict.fromkeys([*if_low, *if_high], "neither")
