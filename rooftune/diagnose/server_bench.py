"""A live server as a Bench for experiments: loads it through the measuring client, restarts it where that is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rooftune.errors import WrongInput
from rooftune.measure.run_bench import Target, bench
from rooftune.measure.target import resolve_target, server_tokenizer
from rooftune.runtimes.contract import Runtime, Server
from rooftune.spec import Arrivals, Configuration, Prompts, Workload
from rooftune.store.run import Run
from rooftune.workload.schedule import Schedule, build_schedule


class ServerBench:
    """Implements ``Bench`` over HTTP.

    ``runtime`` and ``configuration`` allow a restart with a change; without them ``restarted`` refuses. ``schedule`` is the load of
    the run under diagnosis, for ``replay``; at most ``replay_seconds`` of it are sent again. ``keep`` is given every run that was made.
    """

    def __init__(
        self,
        server: Server,
        *,
        permissions: frozenset[str],
        schedule: Schedule | None = None,
        runtime: Runtime | None = None,
        configuration: Configuration | None = None,
        slo: Mapping[str, float] | None = None,
        roofs: Any = None,
        seed: int = 7,
        replay_seconds: float = 40.0,
        keep: Callable[[Run], None] | None = None,
    ) -> None:
        self.server = server
        self.permissions = permissions if runtime is not None else permissions - {"restart"}
        self._schedule = schedule
        self._runtime = runtime
        self._configuration = dict(configuration or {})
        self._slo = dict(slo or {})
        self._roofs = roofs
        self._seed = seed
        self._replay_seconds = replay_seconds
        self._keep = keep
        self._target = resolve_target(Target(url=server.url, model=server.model))
        self._count = server_tokenizer(self._target)

    def burst(self, count: int, input_tokens: int, output_tokens: int, concurrency: int) -> Run:
        self._seed += 1
        workload = Workload(
            arrivals=Arrivals(process="concurrency", users=concurrency),
            prompts=Prompts(source="synthetic", input_tokens=input_tokens, output_tokens=output_tokens),
        )
        schedule = build_schedule(
            workload, requests=count, rate=None, seed=self._seed, salt="experiment", count_tokens=self._count
        )
        return self._bench(schedule, "experiment")

    def replay(self) -> Run | None:
        if self._schedule is None:
            return None
        return self._bench(self._schedule, "replay", self._replay_seconds)

    @contextmanager
    def restarted(self, change: Mapping[str, Any]) -> Iterator[ServerBench]:
        if self._runtime is None or "restart" not in self.permissions:
            raise WrongInput("the server may not be restarted; add 'restart' to allow")
        changed = {**self._configuration, **change}
        self._runtime.check(changed)
        server = self._runtime.start(changed)
        try:
            yield ServerBench(
                server,
                permissions=self.permissions,
                schedule=self._schedule,
                runtime=self._runtime,
                configuration=changed,
                slo=self._slo,
                roofs=self._roofs,
                seed=self._seed + 1000,
                replay_seconds=self._replay_seconds,
                keep=self._keep,
            )
        finally:
            server.stop()

    def _bench(self, schedule: Schedule, label: str, maximum_seconds: float | None = None) -> Run:
        self.server.reset_prefix_cache()
        run = bench(
            self._target,
            schedule,
            slo=self._slo,
            server=self.server,
            roofs=self._roofs,
            label=label,
            warmup=0,
            maximum_seconds=maximum_seconds,
        )
        if self._keep is not None:
            self._keep(run)
        if not run.complete:
            raise KeyboardInterrupt
        return run
