"""`rooftune optimize SPEC`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer


def optimize(
    spec: Annotated[Path, typer.Argument(help="The spec (YAML): goals, workload, baseline.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for everything that is measured; default out/<spec>-<time>.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted optimization in --out.")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what would be done, restarted and spent, and do nothing.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit with 1 when a goal is missed or something got worse (for CI)."),
    ] = False,
) -> int:
    """From a goal to a proven better configuration: measure, diagnose, screen, confirm, prove.

    Writes result.json, report.html, configuration.yaml and every run into the out folder. Interrupt it at any time: what
    is finished is kept, and --resume goes on from there.
    """
    from rooftune.cli.progress import console_progress
    from rooftune.errors import WrongInput
    from rooftune.spec import load_spec

    loaded = load_spec(spec)
    if plan:
        from rooftune.loop.preview import preview, preview_lines

        planned = preview(loaded)
        print(json.dumps(planned, indent=2) if as_json else "\n".join(preview_lines(planned)))
        return 0
    if resume and out is None:
        raise WrongInput("--resume needs --out, the folder of the interrupted optimization")
    folder = out if out is not None else Path("out") / f"{spec.stem}-{time.strftime('%Y%m%d-%H%M%S')}"

    from rooftune.api import optimize as run_loop
    from rooftune.report.console import print_result
    from rooftune.report.exported import CONFIGURATION_FILE
    from rooftune.report.result_json import dumps

    result = run_loop(loaded, folder, resume=resume, progress=console_progress())
    if as_json:
        print(dumps(result))
    else:
        print_result(result, configuration_file=str(folder / CONFIGURATION_FILE))
    if result.partial:
        print(f"rooftune: partial result ({result.partial_reason}), kept in {folder}", file=sys.stderr)
        return 130
    if result.verdict == "invalid":
        return 3
    worse = result.verdict == "regressed" or any(goal.met is not True for goal in result.goals)
    return 1 if check and worse else 0


def register(app: typer.Typer) -> None:
    app.command()(optimize)
