"""Cases with a known cause, drawn from a seed: machine, configuration and load vary, the planted fault decides.

Each case is built from what the fault means (a slot limit that binds, a load above capacity, ...), with the step-time model's own
arithmetic, and never looks at the judges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from rooftune.diagnose.planted.simulated import Machine, SimulatedBench
from rooftune.engine.contracts import EngineConfig
from rooftune.engine.simulated import Arrival
from rooftune.store.run import Run


@dataclass(frozen=True, slots=True)
class Case:
    cause: str
    seed: int
    bench: SimulatedBench

    def run(self) -> Run:
        return self.bench.replay()


def draw(cause: str, seed: int) -> Case:
    """A case of the cause (see PLANTED)."""
    random = np.random.default_rng([seed, sum(map(ord, cause))])
    bench = PLANTED[cause](random)
    bench.seed = seed
    return Case(cause, seed, bench)


def _machine(random: np.random.Generator) -> Machine:
    """A device on which reading the weights takes 2 to 40 ms and a row's arithmetic 1 to 6 % of that."""
    weight_bytes = 10.0 ** random.uniform(8.0, 10.5)
    read = random.uniform(0.002, 0.04)
    parameters = weight_bytes / random.choice([0.6, 1.0, 2.0])
    row = read * random.uniform(0.01, 0.06)
    return Machine(
        bandwidth=weight_bytes / read,
        flops=2.0 * parameters / row,
        weight_bytes=weight_bytes,
        parameters=parameters,
        kv_bytes_per_token=weight_bytes * random.uniform(0.5e-5, 4e-5),
        efficiency=random.uniform(0.65, 0.95),
        noise=random.uniform(0.02, 0.10),
    )


def _poisson(
    random: np.random.Generator,
    rate: float,
    prompts: tuple[int, int],
    outputs: tuple[int, int],
    count: int = 80,
) -> list[Arrival]:
    times = np.cumsum(random.exponential(1.0 / rate, count))
    return [(float(t), int(random.integers(*prompts)), int(random.integers(*outputs))) for t in times]


def _config(random: np.random.Generator, slots: int, **more: object) -> EngineConfig:
    base = EngineConfig(
        slots=slots,
        token_budget=int(random.choice([256, 512, 1024])),
        pool_tokens=1 << 20,
        prefix_cache=str(random.choice(["none", "hash"])),  # type: ignore[arg-type]
    )
    return replace(base, **more)  # type: ignore[arg-type]


def _capacity(machine: Machine, slots: int, prompt: float, output: float, budget: int = 512) -> float:
    """Requests per second with every slot taken: each costs its prompt's steps and its part of ``output`` shared steps."""
    model = machine.step_model()
    decode = (
        (
            model.base
            + model.per_decode_row * slots
            + model.per_context_token * slots * (prompt + output / 2.0)
        )
        * output
        / slots
    )
    prefill = model.per_prefill_token * prompt
    return 1.0 / (decode + prefill)


def _service(machine: Machine, rows: float, prompt: float, output: float) -> tuple[float, float]:
    """Seconds to the first token and per token without waiting."""
    model = machine.step_model()
    step = model.base + model.per_decode_row * rows + model.per_context_token * rows * (prompt + output / 2.0)
    return model.base + model.per_prefill_token * prompt, step


def _bounds(random: np.random.Generator, ttft: float, tpot: float) -> dict[str, float]:
    """Half of the cases state bounds, half do not."""
    return {"ttft": ttft, "tpot": tpot} if random.random() < 0.5 else {}


def _queue_slots(random: np.random.Generator) -> SimulatedBench:
    machine = _machine(random)
    slots = int(random.integers(2, 5))
    prompts, outputs = (20, 100), (30, 80)
    rate = random.uniform(1.15, 1.7) * _capacity(machine, slots, 60, 55)
    batching = random.choice(["continuous", "continuous", "static"])
    first, step = _service(machine, slots, 60, 55)
    return SimulatedBench(
        machine,
        _config(random, slots, batching=str(batching)),
        _poisson(random, rate, prompts, outputs),
        slo=_bounds(random, 4 * first, 4 * step),
    )


def _overload(random: np.random.Generator) -> SimulatedBench:
    """Every slot's row costs its full arithmetic: doubling the batch would double the step."""
    machine = _machine(random)
    slots = int(random.integers(48, 97))
    row = machine.weight_bytes / machine.bandwidth * random.uniform(0.15, 0.4)
    machine = replace(machine, flops=2.0 * machine.parameters / row)
    rate = random.uniform(1.6, 2.5) * _capacity(machine, slots, 60, 55)
    first, _ = _service(machine, slots, 60, 55)
    return SimulatedBench(
        machine,
        _config(random, slots),
        _poisson(random, rate, (20, 100), (30, 80), count=4 * slots),
        slo={"ttft": 6 * first} if random.random() < 0.5 else {},
    )


def _decode_bandwidth(random: np.random.Generator) -> SimulatedBench:
    machine = _machine(random)
    slots = 16
    rate = random.uniform(0.35, 0.6) * _capacity(machine, 6, 60, 90)
    first, step = _service(machine, 3, 60, 90)
    return SimulatedBench(
        machine,
        _config(random, slots),
        _poisson(random, rate, (20, 100), (60, 120)),
        slo={"ttft": 10 * first, "tpot": random.uniform(0.5, 0.8) * step},
    )


def _launch_overhead(random: np.random.Generator) -> SimulatedBench:
    machine = _machine(random)
    machine = replace(machine, overhead=machine.weight_bytes / machine.bandwidth * random.uniform(3.0, 8.0))
    rate = random.uniform(0.35, 0.6) * _capacity(machine, 6, 60, 90)
    first, step = _service(machine, 3, 60, 90)
    return SimulatedBench(
        machine,
        _config(random, 16),
        _poisson(random, rate, (20, 100), (60, 120)),
        slo={"ttft": 10 * first, "tpot": random.uniform(0.3, 0.7) * step},
    )


def _prefill_compute(random: np.random.Generator) -> SimulatedBench:
    machine = _machine(random)
    row = machine.weight_bytes / machine.bandwidth * random.uniform(0.02, 0.06)
    machine = replace(machine, flops=2.0 * machine.parameters / row)
    prompts = (600, 1600)
    rate = random.uniform(0.15, 0.35) * _capacity(machine, 4, 1100, 20)
    first, _ = _service(machine, 2, 1100, 20)
    return SimulatedBench(
        machine,
        _config(random, 16),
        _poisson(random, rate, prompts, (10, 30)),
        slo={"ttft": random.uniform(0.3, 0.6) * first, "tpot": 20 * first},
    )


def _healthy(random: np.random.Generator) -> SimulatedBench:
    """Odd but harmless settings: few slots that suffice, long prompts, an overhead within the bounds."""
    machine = _machine(random)
    machine = replace(machine, overhead=machine.weight_bytes / machine.bandwidth * random.uniform(0.0, 2.0))
    slots = int(random.choice([6, 16, 64]))
    rate = random.uniform(0.1, 0.3) * _capacity(machine, 4, 100, 40)
    first, step = _service(machine, 2, 200, 60)
    slo = {"ttft": 12 * first, "tpot": 6 * step} if random.random() < 0.6 else {}
    return SimulatedBench(
        machine, _config(random, slots), _poisson(random, rate, (20, 200), (20, 60)), slo=slo
    )


PLANTED: dict[str, Callable[[np.random.Generator], SimulatedBench]] = {
    "queue_slots": _queue_slots,
    "overload": _overload,
    "decode_bandwidth": _decode_bandwidth,
    "launch_overhead": _launch_overhead,
    "prefill_compute": _prefill_compute,
    "healthy": _healthy,
}
