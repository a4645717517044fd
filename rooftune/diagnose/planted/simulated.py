"""A simulated server as a Bench: the engine's own policies under a virtual clock, on a machine with known roofs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from rooftune.engine.contracts import EngineConfig
from rooftune.engine.simulated import Arrival, SimulatedRequest, Simulation, StepTimeModel, run_simulation
from rooftune.store.records import ChunkRecord, RequestRecord
from rooftune.store.run import Run, Series


@dataclass(frozen=True, slots=True)
class Machine:
    """Roofs of the device and sizes of the model; a well-made step reaches ``efficiency`` of them.

    ``overhead``: seconds that every step costs besides (the planted launch overhead); ``noise``: relative standard deviation of a
    step's time.
    """

    bandwidth: float
    flops: float
    weight_bytes: float
    parameters: float
    kv_bytes_per_token: float
    efficiency: float = 0.8
    overhead: float = 0.0
    noise: float = 0.05

    def step_model(self) -> StepTimeModel:
        per_token = 2.0 * self.parameters / (self.flops * self.efficiency)
        return StepTimeModel(
            base=self.weight_bytes / (self.bandwidth * self.efficiency) + self.overhead,
            per_prefill_token=per_token,
            per_decode_row=per_token,
            per_context_token=self.kv_bytes_per_token / (self.bandwidth * self.efficiency),
        )

    def roofs(self) -> dict[str, Any]:
        return {
            "bandwidth": [{"bytes": round(self.weight_bytes), "bytes_per_second": self.bandwidth}],
            "flops": {"f32_fma": self.flops},
            "threads": 2,
            "isa": "simulated",
            "cpu": "simulated",
            "measured_at": "2026-01-01T00:00:00+00:00",
            "evidence": "simulated",
        }

    def describe(self) -> dict[str, Any]:
        return {
            "weight_bytes": self.weight_bytes,
            "parameters": self.parameters,
            "kv_bytes_per_token": self.kv_bytes_per_token,
        }


class _Noisy:
    """A step-time model whose steps vary; same interface as StepTimeModel."""

    def __init__(self, model: StepTimeModel, noise: float, seed: int) -> None:
        self._model = model
        self._noise = noise
        self._random = np.random.default_rng(seed)

    def seconds(self, work: Any) -> float:
        return self._model.seconds(work) * float(np.exp(self._random.normal(0.0, self._noise)))


class SimulatedBench:
    """Implements ``Bench``. ``arrivals`` is the load that is replayed."""

    def __init__(
        self,
        machine: Machine,
        config: EngineConfig,
        arrivals: Sequence[Arrival],
        *,
        slo: Mapping[str, float] | None = None,
        permissions: Iterable[str] = ("load", "restart"),
        seed: int = 0,
    ) -> None:
        self.machine = machine
        self.config = config
        self.arrivals = list(arrivals)
        self.slo = dict(slo or {})
        self.permissions = frozenset(permissions)
        self.seed = seed
        self.runs = 0

    def replay(self) -> Run:
        return self._run(self.arrivals, closed=None)

    def burst(self, count: int, input_tokens: int, output_tokens: int, concurrency: int) -> Run:
        first = [(0.0, input_tokens, output_tokens)] * min(count, concurrency)
        return self._run(first, closed=(count - len(first), input_tokens, output_tokens))

    @contextmanager
    def restarted(self, change: Mapping[str, Any]) -> Iterator[SimulatedBench]:
        yield SimulatedBench(
            self.machine,
            replace(self.config, **change),
            self.arrivals,
            slo=self.slo,
            permissions=self.permissions,
            seed=self.seed + 1,
        )

    def _run(self, arrivals: Sequence[Arrival], closed: tuple[int, int, int] | None) -> Run:
        self.runs += 1
        left = closed[0] if closed else 0

        def follow(done: SimulatedRequest) -> Iterable[Arrival]:
            nonlocal left
            if left <= 0 or closed is None or done.last_token is None:
                return []
            left -= 1
            return [(done.last_token, closed[1], closed[2])]

        model: Any = _Noisy(self.machine.step_model(), self.machine.noise, self.seed * 1009 + self.runs)
        simulation = run_simulation(arrivals, self.config, model, follow=follow)
        return self._as_run(simulation)

    def _as_run(self, simulation: Simulation) -> Run:
        records = tuple(_record(request) for request in simulation.requests)
        steps = tuple(_step(step.flat()) for step in simulation.steps)
        times = tuple(round(s["begin_ns"]) for s in steps)
        pages = self.config.pool_tokens // self.config.page_size
        end = max([r.end_ns or 0 for r in records] + [1])
        return Run(
            id=f"simulated-{self.seed}-{self.runs}",
            label="simulated",
            started_at="2026-01-01T00:00:00+00:00",
            target={"model": "simulated"},
            workload={},
            schedule_hash=f"{self.seed}",
            slo=self.slo,
            price_per_second=None,
            currency=None,
            environment={},
            roofs=self.machine.roofs(),
            resolved={**asdict(self.config), "model": self.machine.describe()},
            ledger=(),
            records=records,
            begin_ns=0,
            end_ns=end,
            counters={"preemptions": float(simulation.stats.preemptions)},
            series=(Series("kv_used", "share", times, tuple(s["used_pages"] / pages for s in steps)),),
            steps=steps,
        )


def _step(row: dict[str, float]) -> dict[str, float]:
    return {
        "begin_ns": row.pop("start_ns"),
        "seconds": row.pop("duration"),
        "context_tokens": row.pop("context_sum"),
        **row,
    }


def _record(request: SimulatedRequest) -> RequestRecord:
    scheduled = round(request.arrival * 1e9)
    timings = None
    if request.admitted is not None and request.first_token is not None and request.last_token is not None:
        timings = {
            "queue": request.admitted - request.arrival,
            "prefill": request.first_token - request.admitted,
            "decode": request.last_token - request.first_token,
        }
    return RequestRecord(
        index=request.index,
        scheduled_ns=scheduled,
        sent_ns=scheduled,
        end_ns=None if request.last_token is None else round(request.last_token * 1e9),
        status=429 if request.refused else 200,
        error="status_429" if request.refused else None,
        chunks=[ChunkRecord(round(t * 1e9), "content", 1, 1) for t in request.token_times],
        prompt_tokens=request.prompt_tokens,
        output_tokens=len(request.token_times),
        cached_tokens=request.cached_tokens,
        server_timings=timings,
    )
