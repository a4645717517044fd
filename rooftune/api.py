"""The Python API: what the command line does, as functions.

>>> import rooftune
>>> result = rooftune.optimize("examples/chat.yaml", "out/chat")  # doctest: +SKIP
>>> rooftune.load_run("out/chat/runs/baseline-00-baseline").metric("ttft_p95")  # doctest: +SKIP
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rooftune.diagnose.diagnose import Diagnosis
from rooftune.diagnose.diagnose import diagnose as _diagnose
from rooftune.hardware.roofs import Roofs, probe
from rooftune.loop.optimize import optimize as _optimize
from rooftune.measure.run_bench import Target
from rooftune.measure.run_bench import bench as _bench
from rooftune.progress import Progress, Silent
from rooftune.report.write import write_reports
from rooftune.spec import Spec, Workload, load_spec, parse_spec
from rooftune.store.result import Result
from rooftune.store.run import Run
from rooftune.store.run_files import load_run, save_run
from rooftune.workload.schedule import build_schedule

__all__ = ["bench", "diagnose", "load_run", "optimize", "roofs", "save_run"]


def optimize(
    spec: Spec | dict[str, Any] | str | Path,
    folder: str | Path,
    *,
    resume: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Take a spec (object, mapping, or file) from its goals to a verdict; ``folder`` gets every run, the result and its reports.

    Raises WrongInput, EnvironmentProblem, InvalidRun. An interrupt gives the partial result, marked so.
    """
    result = _optimize(_as_spec(spec), folder, resume=resume, progress=progress or Silent())
    return write_reports(result, folder)


def bench(
    url: str,
    *,
    workload: Workload | dict[str, Any],
    requests: int,
    model: str = "",
    rate: float | None = None,
    seed: int = 1,
    slo: dict[str, float] | None = None,
    progress: Progress | None = None,
) -> Run:
    """Load a server that is there and measure it. ``rate`` (per second) overrides the workload's; ``slo`` in seconds."""
    load = workload if isinstance(workload, Workload) else Workload.model_validate(workload)
    schedule = build_schedule(load, requests=requests, rate=rate, seed=seed)
    return _bench(Target(url=url, model=model), schedule, slo=slo, progress=progress)


def diagnose(run: Run | str | Path) -> Diagnosis:
    """Why a finished run was slow, from what it recorded (without experiments)."""
    return _diagnose(run if isinstance(run, Run) else load_run(run))


def roofs(*, quick: bool = False, fresh: bool = False) -> Roofs:
    """What this machine can do, measured (cached; ``fresh`` measures again)."""
    return probe(quick, fresh=fresh)


def _as_spec(spec: Spec | dict[str, Any] | str | Path) -> Spec:
    if isinstance(spec, Spec):
        return spec
    return parse_spec(spec) if isinstance(spec, dict) else load_spec(spec)
