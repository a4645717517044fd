"""One run at a time: the arm's server, the round's schedule, the measurement, the record on disk."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rooftune.errors import EnvironmentProblem
from rooftune.hardware.roofs import Roofs, reprobe
from rooftune.loop.fleet import Fleet
from rooftune.loop.journal import Journal
from rooftune.measure.pilot import pilot_schedule
from rooftune.measure.run_bench import WARMUP_REQUESTS, Target, bench
from rooftune.progress import Progress, Silent
from rooftune.spec import Configuration, Spec
from rooftune.store.result import RunSummary
from rooftune.store.run import Run
from rooftune.store.run_files import load_run, save_run
from rooftune.workload.schedule import Schedule, build_schedule

_SUMMARY_METRICS = (
    "ttft_mean",
    "ttft_p50",
    "tpot_mean",
    "e2e_mean",
    "output_tokens_per_second",
    "requests_per_second",
    "slo_attainment",
    "goodput",
    "error_rate",
    "send_lag_p99",
    "mbu",
    "mfu",
)


_ATTEMPTS = 2
"""A run that fails a gate of the measurement itself (a busy client, stolen processor time) is measured once more."""
_RESULTS = ("rate_achieved",)


class ArmFailed(Exception):
    """An arm could not be measured (its server did not start, or died); carries the reason."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One configuration under its name in the comparison. ``configuration`` is whole: defaults and changes merged."""

    name: str
    configuration: Configuration


def as_arm(run: Run) -> Run:
    """The run as part of a comparison. An arm that falls behind its load, where the other arm has the same load for the same
    time, is a result and not a fault of the measurement: that gate is then told, but does not refuse the run."""
    gates = tuple(
        replace(gate, ok=None, reason=f"a result here, not a fault: {gate.reason}")
        if gate.name in _RESULTS and gate.ok is False
        else gate
        for gate in run.gates
    )
    return replace(run, gates=gates)


def _run_key(stage: str, number: int, arm: Arm) -> str:
    return f"{stage}-{number:02d}-{arm.name}"


def _broken(run: Run) -> str:
    return "; ".join(gate.reason for gate in run.gates if gate.ok is False)


def derived_seed(*parts: Any) -> int:
    """A seed that depends on all parts and nothing else, stable between processes."""
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()
    return int.from_bytes(digest[:6], "big")


class Trials:
    """Runs arms and keeps what they measured. A run that the journal names is loaded, not repeated."""

    def __init__(self, spec: Spec, fleet: Fleet, journal: Journal, roofs: Roofs, progress: Progress) -> None:
        self._spec = spec
        self._fleet = fleet
        self._journal = journal
        self._roofs = roofs
        self._progress = progress
        self._schedules: dict[str, Schedule] = {}
        self._order = 0
        self.summaries: list[RunSummary] = []

    def schedule(self, stage: str, number: int, requests: int, rate: float | None) -> Schedule:
        """The schedule that every arm of a round shares: fresh prompts and arrivals for each stage and round."""
        workload = self._spec.workload
        seed = derived_seed(workload.seed, stage, number)
        return self._known(build_schedule(workload, requests=requests, rate=rate, seed=seed))

    def busy_schedule(self, stage: str, users: int) -> Schedule:
        """A closed loop with all slots busy."""
        workload = self._spec.workload
        return self._known(pilot_schedule(workload, users, derived_seed(workload.seed, stage)))

    def _known(self, schedule: Schedule) -> Schedule:
        self._schedules[schedule.hash] = schedule
        return schedule

    def schedule_of(self, run: Run) -> Schedule | None:
        """The schedule under which a run of this loop was measured; None for one that was not made here."""
        return self._schedules.get(run.schedule_hash)

    def run(
        self, arm: Arm, schedule: Schedule, *, stage: str, number: int, expected_seconds: float | None = None
    ) -> Run:
        """Measure one arm under a schedule, or load what was measured before an interruption."""
        key = _run_key(stage, number, arm)
        value = self._journal.once(
            f"run/{key}", lambda: self._measure(key, arm, schedule, stage, number, expected_seconds)
        )
        if "failed" in value:
            raise ArmFailed(value["failed"])
        run = as_arm(load_run(self._journal.folder / value["path"]))
        self._summarize(run, arm, stage, number, value["path"])
        return run

    def _measure(
        self, key: str, arm: Arm, schedule: Schedule, stage: str, number: int, expected_seconds: float | None
    ) -> dict[str, Any]:
        """Measure and save. A server that does not start, or dies, fails its arm; an interrupt keeps what was measured."""
        folder = self._journal.folder / "runs" / key
        for attempt in range(_ATTEMPTS):
            self._progress.begin(
                f"{stage} {number + 1}: {arm.name}{' again' if attempt else ''}", expected_seconds
            )
            try:
                run, reading = self._bench(key, arm, schedule)
            except EnvironmentProblem as problem:
                self._fleet.discard(arm.configuration)
                return {"failed": str(problem)}
            finally:
                self._progress.end()
            if not run.complete:
                save_run(run, folder.with_name(f"{key}-interrupted"))
                raise KeyboardInterrupt
            if as_arm(run).valid or attempt + 1 == _ATTEMPTS:
                break
            save_run(run, folder.with_name(f"{key}-invalid{attempt + 1}"))
            self._progress.say(f"{key} is not valid ({_broken(as_arm(run))}); measured again")
        save_run(run, folder)
        return {"path": str(folder.relative_to(self._journal.folder)), "reprobe": reading}

    def _bench(self, key: str, arm: Arm, schedule: Schedule) -> tuple[Run, dict[str, float]]:
        server = self._fleet.server(arm.configuration)
        reading = reprobe(quick=True)
        run = bench(
            Target(url=server.url, model=server.model),
            schedule,
            slo={str(name): bound for name, bound in self._spec.slo.items()},
            price=self._spec.price,
            server=server,
            roofs=self._roofs,
            label=key,
            progress=Silent(),
            text="off",
            # A server that has answered before is warm, and the time is better spent on measuring.
            warmup=WARMUP_REQUESTS if self._fleet.first_use(server) else 0,
        )
        return run, reading

    def keep(self, run: Run) -> None:
        """Save a run that no round belongs to (an experiment's)."""
        save_run(run, self._journal.folder / "runs" / f"{run.label}-{run.id}")

    def start(self, arms: Sequence[Arm], stage: str, number: int) -> None:
        """Start the servers of a round's arms together, those whose run is not in the journal yet."""
        missing = [arm for arm in arms if not self._journal.has(f"run/{_run_key(stage, number, arm)}")]
        if missing:
            self._progress.begin(f"starting {len(missing)} server{'s' if len(missing) > 1 else ''}", None)
            try:
                self._fleet.start_all([arm.configuration for arm in missing])
            finally:
                self._progress.end()

    def order(self, arms: Sequence[Arm], stage: str, number: int) -> list[Arm]:
        """The order of a round: drawn for each pair of rounds, and reversed in its second one (AB, then BA)."""
        order = list(arms)
        random.Random(derived_seed(self._spec.workload.seed, stage, number // 2)).shuffle(order)
        return order[::-1] if number % 2 else order

    def _summarize(self, run: Run, arm: Arm, stage: str, number: int, path: str) -> None:
        values = {
            name: metric.value if (metric := run.metric(name)) is not None else None
            for name in _SUMMARY_METRICS
        }
        self.summaries.append(
            RunSummary(
                id=run.id,
                arm=arm.name,
                stage=stage,
                round=number,
                valid=run.valid,
                metrics=values,
                path=path,
                started_at=run.started_at,
                order=self._order,
                reason=_broken(run) or run.incomplete_reason,
                requests=len(run.records),
                gates={gate.name: gate.ok for gate in run.gates},
            )
        )
        self._order += 1

    @property
    def folder(self) -> Path:
        return self._journal.folder
