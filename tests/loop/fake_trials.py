"""Trials without servers: each configuration has a true latency, each round its own noise shared by all arms, each run its own."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

from rooftune.loop.screen import Screened
from rooftune.loop.trials import Arm, ArmFailed
from rooftune.select.candidates import Candidate
from rooftune.spec import Configuration, Goal
from rooftune.store.run import MetricValue, Run
from rooftune.techniques.card import Applies
from rooftune.techniques.catalogue import card

TTFT = Goal("ttft_mean", "<=", 1.0, "time")


def made_run(values: dict[str, float], configuration: Configuration) -> Run:
    """A valid run that carries these metrics and nothing else."""
    return Run(
        id="made", label="made", started_at="2026-01-01T00:00:00", target={"model": "m"}, workload={}, schedule_hash="h",
        slo={}, price_per_second=None, currency=None, environment={}, roofs=None, resolved=dict(configuration), ledger=(),
        records=(), begin_ns=0, end_ns=1, metrics=tuple(MetricValue(n, v, "s") for n, v in values.items()),
    )  # fmt: skip


@dataclass
class FakeTrials:
    """``effects``: switch setting -> factor on the latency, multiplied over all settings of a configuration."""

    effects: dict[tuple[str, Any], float]
    noise: float
    seed: int
    broken: set[str] = field(default_factory=set)
    ran: list[tuple[str, int, str]] = field(default_factory=list)

    def schedule(self, stage: str, number: int, requests: int, rate: float | None) -> Any:
        return (stage, number)

    def start(self, arms: list[Arm], stage: str, number: int) -> None:
        pass

    def order(self, arms: list[Arm], stage: str, number: int) -> list[Arm]:
        return list(arms)

    def run(
        self, arm: Arm, schedule: Any, *, stage: str, number: int, expected_seconds: float | None = None
    ) -> Run:
        if arm.name in self.broken:
            raise ArmFailed("the server did not start: no memory")
        self.ran.append((stage, number, arm.name))
        shared = random.Random(f"{self.seed}/{stage}/{number}").gauss(0.0, 3 * self.noise)
        own = random.Random(f"{self.seed}/{stage}/{number}/{arm.name}").gauss(0.0, self.noise / math.sqrt(2))
        factor = math.prod(self.effects.get(item, 1.0) for item in arm.configuration.items())
        return made_run({"ttft_mean": factor * math.exp(shared + own)}, arm.configuration)


def candidate(name: str, change: Configuration) -> Candidate:
    return Candidate(card(name), change, (), Applies(True, "for the test"))


def screened(name: str, change: Configuration) -> Screened:
    one = candidate(name, change)
    return Screened(one, Arm(name, change), [])
