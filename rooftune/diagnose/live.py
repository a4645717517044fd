"""A spec's baseline, started, measured and diagnosed by experiment."""

from __future__ import annotations

from typing import Any

from rooftune.diagnose.diagnose import Diagnosis, diagnose
from rooftune.diagnose.experiments import investigate
from rooftune.diagnose.server_bench import ServerBench
from rooftune.errors import RooftuneError
from rooftune.measure.pilot import carried_rate, pilot_schedule
from rooftune.measure.run_bench import Target, bench
from rooftune.progress import Progress
from rooftune.runtimes.contract import Server
from rooftune.runtimes.registry import runtime_for
from rooftune.spec import Configuration, Spec
from rooftune.store.run import Run
from rooftune.workload.schedule import Schedule, build_schedule

_REQUESTS = 40
_BUSY_USERS = 4


def diagnose_spec(
    spec: Spec, progress: Progress, *, experiments: bool = True
) -> tuple[Diagnosis, dict[str, dict[str, Any]], Run]:
    """Start the baseline, measure it under the spec's load, and say why it is as slow as it is. The server is stopped."""
    runtime = runtime_for(spec)
    configuration: Configuration = {**runtime.defaults(), **spec.baseline.techniques}
    runtime.check(configuration)
    roofs = _roofs(spec, progress)
    server = runtime.start(configuration)
    try:
        schedule = schedule_for(spec, server, configuration, progress)
        run = bench(
            Target(url=server.url, model=server.model),
            schedule,
            slo={str(name): bound for name, bound in spec.slo.items()},
            price=spec.price,
            server=server,
            roofs=roofs,
            label="diagnose",
            progress=progress,
        )
        if not experiments:
            return diagnose(run, goals=spec.goals.bounds), {}, run
        commanded = ServerBench(
            server,
            permissions=spec.permissions,
            schedule=schedule,
            runtime=runtime,
            configuration=configuration,
            slo={str(name): bound for name, bound in spec.slo.items()},
            roofs=roofs,
        )
        found, outcomes = investigate(run, commanded, goals=spec.goals.bounds, progress=progress)
        return found, outcomes, run
    finally:
        server.stop()


def schedule_for(spec: Spec, server: Server, configuration: Configuration, progress: Progress) -> Schedule:
    """The spec's load. ``rate: auto`` is settled by a short closed loop with all slots busy."""
    requests = spec.workload.requests if isinstance(spec.workload.requests, int) else _REQUESTS
    arrivals = spec.workload.arrivals
    if arrivals.process == "concurrency" or isinstance(arrivals.rate, int | float):
        return build_schedule(spec.workload, requests=requests, rate=None, seed=spec.workload.seed)
    rate = arrivals.load * capacity(spec, server, configuration, progress)
    progress.say(
        f"offered rate: {rate:.3g}/s, {arrivals.load:.0%} of what the baseline reaches with all slots busy"
    )
    return build_schedule(spec.workload, requests=requests, rate=rate, seed=spec.workload.seed)


def capacity(spec: Spec, server: Server, configuration: Configuration, progress: Progress) -> float:
    """Requests per second with every slot taken, from a short closed loop."""
    slots = configuration.get("slots", _BUSY_USERS)
    users = min(int(slots) if isinstance(slots, int) else _BUSY_USERS, 32)
    schedule = pilot_schedule(spec.workload, users, spec.workload.seed)
    target = Target(url=server.url, model=server.model)
    return carried_rate(bench(target, schedule, server=server, label="capacity", progress=progress))


def _roofs(spec: Spec, progress: Progress) -> Any:
    """Roofs of this machine, which is the server's only where it was started here; None where they cannot be measured."""
    if spec.runtime.name != "embedded":
        return None
    from rooftune.hardware.roofs import probe

    try:
        return probe(quick=True, progress=progress)
    except RooftuneError as problem:
        progress.say(f"roofs are not known: {problem}")
        return None
