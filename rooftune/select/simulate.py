"""What a change of scheduling would do to this very run, by the engine's own scheduler under a virtual clock.

The step-time model is fitted on the run's measured steps. Both arms are simulated, so what the model gets wrong for both
cancels in their ratio. The interval holds four kinds of error:

- of the fit: the model is fitted again on blocks of steps drawn with replacement;
- of single steps: every step is scaled by a measured residual;
- between runs: each arm's speed differs by ``RUN_SPREAD`` unless the caller has measured it (and near saturation that moves TTFT a lot, as it does in truth);
- of the model: half of its error on the measured baseline, and ``EXTRAPOLATION`` for each doubling of rows or prompt tokens
  of a step beyond what was measured.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from statistics import NormalDist, fmean, stdev
from typing import Any

from rooftune.engine.contracts import EngineConfig
from rooftune.engine.simulated import SimulatedRequest, Simulation, StepTimeModel, fit, run_simulation
from rooftune.engine.stats import StepRecord
from rooftune.engine.work import StepWork
from rooftune.errors import WrongInput
from rooftune.select.replay import Replay, replay_of, steps_of
from rooftune.spec import Configuration
from rooftune.store.run import Run
from rooftune.techniques.card import PredictedEffect
from rooftune.workload.schedule import Schedule

SCHEDULING = frozenset(
    {"batching", "slots", "batch_wait", "token_budget", "chunked_prefill", "prefix_cache", "pool_tokens"}
)
"""Switches whose effect the scheduler alone decides."""

REPLICATES = 10
RUN_SPREAD = 0.04
EXTRAPOLATION = 0.10
_FLOOR = 0.02
"""Half-width in log below which no interval is believed."""
_T90 = 1.833
"""Student's t, 95 % one-sided, REPLICATES - 1 degrees of freedom."""
_BLOCK = 10
_MAXIMUM_STEPS = 4000
"""Of the measured steps, those that are fitted; more do not make the model better."""

METRICS = ("ttft_mean", "ttft_p95", "tpot_mean", "e2e_mean", "slo_attainment", "output_tokens_per_second")


@dataclass(frozen=True, slots=True)
class _Noisy(StepTimeModel):
    """A step-time model whose steps are scaled by measured residuals and by the arm's own speed."""

    residuals: tuple[float, ...] = (0.0,)
    speed: float = 1.0
    draw: random.Random = field(default_factory=random.Random)

    def seconds(self, work: StepWork) -> float:
        return StepTimeModel.seconds(self, work) * (1.0 + self.draw.choice(self.residuals)) * self.speed


def _noisy(model: StepTimeModel, residuals: tuple[float, ...], speed: float, seed: int) -> _Noisy:
    coefficients = {f.name: getattr(model, f.name) for f in fields(StepTimeModel)}
    return _Noisy(**coefficients, residuals=residuals, speed=speed, draw=random.Random(seed))


@dataclass(frozen=True, slots=True)
class _Replicate:
    model: StepTimeModel
    residuals: tuple[float, ...]
    seed: int
    before: dict[str, float]


class Simulator:
    """Predicts changes of one measured run. Build it once a run: the baseline's replicates are shared by all changes."""

    def __init__(self, run: Run, schedule: Schedule, *, run_spread: float = RUN_SPREAD) -> None:
        """``run_spread``: standard deviation of the log speed between equal runs on this machine.

        Raises WrongInput with the reason where the run cannot be simulated.
        """
        self._run_spread = run_spread
        steps, replay = steps_of(run), replay_of(run, schedule)
        for part in (steps, replay):
            if isinstance(part, str):
                raise WrongInput(part)
        assert not isinstance(steps, str) and not isinstance(replay, str)
        self.config = engine_config(run.resolved)
        self._replay: Replay = replay
        self._slo = run.slo
        self._measured = {name: m.value for name in METRICS if (m := run.metric(name)) is not None}
        self._steps = steps[-_MAXIMUM_STEPS:]
        self.model = fit(self._steps)
        self._rows = max(step.work.decode_rows for step in self._steps)
        self._tokens = max(step.work.tokens for step in self._steps)
        self._nominal = self._metrics(self._simulate(self.config, self.model))
        # Seeds whose orders are uncorrelated: the two arms' speeds are independent.
        self._before, self._after = _spread(1), _spread(6)
        self._replicates = [self._replicate(number) for number in range(REPLICATES)]

    def baseline(self) -> dict[str, float]:
        """The baseline's metrics as simulated without noise: beside the measured ones they show the model's error."""
        return dict(self._nominal)

    def effects(
        self, change: Configuration, step_scale: tuple[float, float] = (1.0, 1.0)
    ) -> tuple[PredictedEffect, ...]:
        """Ratios after / before with their ~90 % intervals. ``step_scale`` bounds how much longer each step takes
        (kernels and threads change that, scheduling does not). Raises WrongInput for a change that cannot be."""
        scheduling = {name: value for name, value in change.items() if name in SCHEDULING}
        after_config = changed(self.config, scheduling)
        middle = math.sqrt(step_scale[0] * step_scale[1])
        nominal = self._simulate(after_config, _noisy(self.model, (0.0,), middle, 0))
        beyond, told = self._beyond(nominal)
        ratios: dict[str, list[float]] = {}
        for number, replicate in enumerate(self._replicates):
            # Evenly over the scale's interval, in the logarithm, so that few replicates cover it.
            share = (number + 0.5) / REPLICATES
            scale = step_scale[0] ** (1 - share) * step_scale[1] ** share
            speed = scale * math.exp(self._after[number] * math.hypot(self._run_spread, beyond))
            noisy = _noisy(replicate.model, replicate.residuals, speed, replicate.seed)
            after = self._metrics(self._simulate(after_config, noisy))
            for name, value in after.items():
                if value > 0 and replicate.before.get(name, 0.0) > 0:
                    ratios.setdefault(name, []).append(math.log(value / replicate.before[name]))
        basis = f"simulated on {len(self._steps)} measured steps{told}"
        if self._measured.get("slo_attainment") == 0.0:
            # A share that is 0 before has no ratio; the latencies under it are predicted instead.
            ratios.pop("slo_attainment", None)
        return tuple(
            self._interval(name, values, basis)
            for name, values in ratios.items()
            if len(values) == REPLICATES
        )

    def _interval(self, name: str, logs: list[float], basis: str) -> PredictedEffect:
        half = _T90 * stdev(logs) * math.sqrt(1.0 + 1.0 / len(logs))
        measured = self._measured.get(name)
        error = abs(math.log(self._nominal[name] / measured)) if measured and self._nominal.get(name) else 0.0
        half = math.hypot(max(half, _FLOOR), 0.5 * error)
        low, high = math.exp(fmean(logs) - half), math.exp(fmean(logs) + half)
        if name == "slo_attainment" and measured:
            high = min(high, 1.0 / measured)
            low = min(low, high)
        return PredictedEffect(name, low, high, basis)

    def _beyond(self, nominal: Simulation) -> tuple[float, str]:
        """Spread for what was never measured: rows or tokens of a step beyond the baseline's largest."""
        rows = max((step.work.decode_rows for step in nominal.steps), default=0)
        tokens = max((step.work.tokens for step in nominal.steps), default=0)
        doublings = [
            math.log2(max(now / max(then, 1), 1.0))
            for now, then in ((rows, self._rows), (tokens, self._tokens))
        ]
        told = f", {rows} rows a step where {self._rows} were measured" if rows > self._rows else ""
        return EXTRAPOLATION * math.hypot(*doublings), told

    def _replicate(self, number: int) -> _Replicate:
        draw = random.Random(f"{number}/{len(self._steps)}")
        starts = [draw.randrange(len(self._steps)) for _ in range(max(len(self._steps) // _BLOCK, 3))]
        drawn = [step for start in starts for step in self._steps[start : start + _BLOCK]]
        try:
            model = fit(drawn)
        except WrongInput:
            model = self.model
        residuals = _residuals(model, drawn)
        seed = draw.randrange(1 << 30)
        speed = math.exp(self._before[number] * self._run_spread)
        before = self._metrics(self._simulate(self.config, _noisy(model, residuals, speed, seed)))
        return _Replicate(model, residuals, seed, before)

    def _simulate(self, config: EngineConfig, model: StepTimeModel) -> Simulation:
        return run_simulation(self._replay.first(), config, model, follow=self._replay.follower())

    def _metrics(self, simulation: Simulation) -> dict[str, float]:
        return metrics_of(simulation.requests, self._slo, self._replay.overhead)


def _spread(seed: int) -> list[float]:
    """Evenly spaced quantiles of a standard normal in random order: with few replicates their mean must be exactly 0."""
    quantiles = [NormalDist().inv_cdf((number + 0.5) / REPLICATES) for number in range(REPLICATES)]
    random.Random(seed).shuffle(quantiles)
    return quantiles


def metrics_of(
    requests: Sequence[SimulatedRequest], slo: Mapping[str, float], overhead: float
) -> dict[str, float]:
    """The run metrics of a simulation, as a client would see them: ``overhead`` seconds more to the first token.

    slo_attainment is (met + 1/2) / (all + 1), so that its ratio stays finite; a refused request is a miss.
    """
    done = [r for r in requests if r.refused is None and r.last_token is not None]
    if not done:
        return {}
    ttft = sorted(r.token_times[0] - r.arrival + overhead for r in done)
    tpot = [_tpot(r) for r in done if len(r.token_times) > 1]
    end, begin = max(r.token_times[-1] for r in done), min(r.arrival for r in requests)
    found = {
        "ttft_mean": fmean(ttft),
        "ttft_p95": ttft[max(math.ceil(0.95 * len(ttft)) - 1, 0)],
        "e2e_mean": fmean(r.token_times[-1] - r.arrival + overhead for r in done),
        "output_tokens_per_second": sum(len(r.token_times) for r in done) / (end - begin),
    }
    if tpot:
        found["tpot_mean"] = fmean(tpot)
    if slo:
        met = sum(_meets(r, slo, overhead) for r in done)
        found["slo_attainment"] = (met + 0.5) / (len(requests) + 1.0)
    return found


def _tpot(request: SimulatedRequest) -> float:
    times = request.token_times
    return (times[-1] - times[0]) / (len(times) - 1)


def _meets(request: SimulatedRequest, slo: Mapping[str, float], overhead: float) -> bool:
    times = request.token_times
    values = {
        "ttft": times[0] - request.arrival + overhead,
        "e2e": times[-1] - request.arrival + overhead,
        "tpot": _tpot(request) if len(times) > 1 else 0.0,
        "itl": max((b - a for a, b in pairwise(times)), default=0.0),
    }
    return all(values[name] <= bound for name, bound in slo.items() if name in values)


def engine_config(resolved: Mapping[str, Any] | None) -> EngineConfig:
    """The engine's configuration as its server told it; WrongInput for a server that is not this engine."""
    if resolved is None or "batching" not in resolved or "slots" not in resolved:
        raise WrongInput("the server does not tell a configuration that the simulated engine knows")
    return EngineConfig(**{f.name: resolved[f.name] for f in fields(EngineConfig) if f.name in resolved})


def changed(config: EngineConfig, change: Configuration) -> EngineConfig:
    """The configuration with some switches set otherwise."""
    settings: dict[str, Any] = dict(change)
    return replace(config, **settings)


def _residuals(model: StepTimeModel, steps: Sequence[StepRecord]) -> tuple[float, ...]:
    """Relative errors of the steps, the outermost 2 % at each end left out (the machine did something else)."""
    errors = sorted(step.duration / max(model.seconds(step.work), 1e-9) - 1.0 for step in steps)
    cut = len(errors) // 50
    kept = errors[cut : len(errors) - cut]
    centre = fmean(kept)
    return tuple(max(error - centre, -0.9) for error in kept)
