"""`rooftune diagnose RUN|SPEC`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rooftune.errors import WrongInput
from rooftune.spec.units import format_quantity

if TYPE_CHECKING:
    from rooftune.diagnose.diagnose import Diagnosis
    from rooftune.progress import Progress


def register(app: typer.Typer) -> None:
    app.command()(diagnose)


def diagnose(
    target: Annotated[
        Path,
        typer.Argument(
            help="A saved run (folder), or a spec (.yaml) whose baseline is measured.", metavar="RUN|SPEC"
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    experiments: Annotated[
        bool, typer.Option(help="For a spec: intervene on the server to settle the cause.")
    ] = True,
) -> int:
    """Say why a run, or a spec's baseline, is slow: causes judged by evidence that agrees, or an honest unknown.

    A run is judged from what was recorded. For a spec the baseline is started and measured, then experiments with a signature
    stated beforehand separate the causes. The reasoning is shown as it goes on standard error.
    """
    from rooftune.cli.progress import console_progress

    progress = console_progress()
    outcomes: dict[str, dict[str, Any]] = {}
    if target.suffix in (".yaml", ".yml"):
        found, outcomes, extra = _spec(target, progress, experiments)
    elif target.exists():
        found, extra = _run(target)
    else:
        raise WrongInput(f"{target}: no such run or spec")
    if as_json:
        print(json.dumps({**found.to_json(), "experiments": outcomes, **extra}))
    else:
        print("\n".join(_lines(found, outcomes, extra)))
    return 0


def _run(folder: Path) -> tuple[Diagnosis, dict[str, Any]]:
    from rooftune.diagnose.diagnose import diagnose as judge
    from rooftune.diagnose.time_split import time_split
    from rooftune.store.run_files import load_run

    run = load_run(folder)
    return judge(run), {"time_split": time_split(run), "run": run.id, "valid": run.valid}


def _spec(
    file: Path, progress: Progress, experiments: bool
) -> tuple[Diagnosis, dict[str, Any], dict[str, Any]]:
    from rooftune.diagnose.live import diagnose_spec
    from rooftune.diagnose.time_split import time_split
    from rooftune.spec import load_spec

    found, outcomes, run = diagnose_spec(load_spec(file), progress, experiments=experiments)
    return found, outcomes, {"time_split": time_split(run), "run": run.id, "valid": run.valid}


_MARKS = {"supported": "+", "refuted": "-", "unknown": "?"}


def _lines(found: Diagnosis, outcomes: dict[str, dict[str, Any]], extra: dict[str, Any]) -> list[str]:
    lines = [f"primary: {found.primary or 'none'}", found.best_reading, ""]
    if not extra["valid"]:
        lines.insert(0, "note: this run failed a validity gate; its numbers may measure something else")
    for finding in found.findings:
        share = "" if finding.share is None else f", {finding.share:.0%} of the lost time"
        sure = "" if finding.confidence is None else f", confidence {finding.confidence:.2f}"
        lines.append(f"{_MARKS[finding.status]} {finding.cause}: {finding.status}{share}{sure}")
        if finding.status != "refuted":
            lines.extend(f"    {text}" for text in finding.evidence)
    for title, split in (
        ("time per output token", "tpot"),
        ("decode step", "decode_step"),
        ("time to first token", "ttft"),
    ):
        told = extra["time_split"][split]
        if told["measured"]:
            parts = ", ".join(
                f"{p['name']} {format_quantity(p['seconds'], 'time')} ({p['kind']})"
                for p in told["parts"]
                if p["seconds"]
            )
            lines.append(f"{title}: {format_quantity(told['measured'], 'time')} = {parts}")
    lines.extend(f"experiment {name}: {o['failed'] or o['statement']}" for name, o in outcomes.items())
    if found.missing:
        lines.append("missing: " + "; ".join(found.missing))
    lines.append(f"next: {found.next_step}")
    return lines
