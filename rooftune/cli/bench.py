"""`rooftune bench TARGET`."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rooftune.errors import InvalidRun, WrongInput

if TYPE_CHECKING:
    from rooftune.cli import bench_options
    from rooftune.cli.bench_target import Open
    from rooftune.progress import Progress
    from rooftune.spec import Goal, Price, Workload
    from rooftune.store.run import Run

_DEFAULT_REQUESTS = 60
_PILOT_USERS = 16
_FASTEST_USER = 20
"""Answers per second and user that a closed loop by the clock is prepared for; where they come faster, a note says so."""
_CLOSED_LOOP_ROOM = 20_000
"""Most requests prepared for a closed loop that ends by the clock."""


def register(app: typer.Typer) -> None:
    app.command()(bench)


def bench(
    target: Annotated[
        str,
        typer.Argument(
            help="A URL, a model (served for the measurement), or a spec file (.yaml).", metavar="TARGET"
        ),
    ],
    model: Annotated[
        str | None, typer.Option(help="Model name at the URL; found by itself where there is one.")
    ] = None,
    rate: Annotated[str | None, typer.Option(help="Open loop: requests per second, e.g. 4/s.")] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Closed loop: users who wait for their answer.")
    ] = None,
    think: Annotated[
        str | None, typer.Option(help="Closed loop: pause between answer and next request, e.g. 2s.")
    ] = None,
    arrivals: Annotated[str | None, typer.Option(help="With --rate: poisson (default) or constant.")] = None,
    requests: Annotated[int | None, typer.Option(min=1, max=10_000_000, help="Number of requests.")] = None,
    duration: Annotated[
        str | None, typer.Option(help="Instead of a number: how long to send, e.g. 60s.")
    ] = None,
    input_tokens: Annotated[
        int | None, typer.Option(min=1, help="Synthetic prompts of this length, chat template included.")
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option(min=1, help="Answers of exactly this length, where the server can.")
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option(
            help="builtin:chat, builtin:longdoc, synthetic, jsonl:FILE or sharegpt:FILE.", metavar="SOURCE"
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of arrivals and prompts; a fresh one by default.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="Sent with every request; may be repeated.", metavar="K:V")
    ] = None,
    extra_body: Annotated[
        str | None, typer.Option(help="Fields added to every request body.", metavar="JSON")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the API key.", metavar="NAME")
    ] = None,
    goal: Annotated[
        list[str] | None,
        typer.Option(help="A bound on the run, e.g. 'ttft_p95<=400ms'; may be repeated.", metavar="GOAL"),
    ] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(help="A bound per request, e.g. 'ttft<=400ms'; may be repeated.", metavar="BOUND"),
    ] = None,
    price: Annotated[float | None, typer.Option(min=0, help="Price of the server per hour.")] = None,
    currency: Annotated[str, typer.Option(help="Of the price.")] = "USD",
    timeout: Annotated[str, typer.Option(help="Longest wait for one answer.")] = "600s",
    out: Annotated[Path | None, typer.Option(help="Folder for the run.", metavar="DIR")] = None,
    text: Annotated[str, typer.Option(help="Of the answers keep: full, hash or off.")] = "hash",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Load a server and measure it: latency from the scheduled time, throughput, goodput, and whether to believe it.

    Exit status: 0 measured and valid, 2 wrong input, 3 the run is not valid, 4 the server cannot be reached.
    """
    from rooftune.cli import bench_options, bench_target
    from rooftune.cli.bench_summary import as_json as to_json
    from rooftune.cli.bench_summary import broken, summary
    from rooftune.cli.progress import console_progress
    from rooftune.store.run_files import save_run

    if text not in ("full", "hash", "off"):
        raise WrongInput(f"--text is full, hash or off, not '{text}'")
    asked = bench_options.Asked(
        rate, concurrency, think, requests, duration, input_tokens, output_tokens, prompts, arrivals, seed
    )
    spec = None if bench_target.is_url(target) else bench_target.read_spec(target)
    goals = [*(spec.goals.bounds if spec is not None and not goal else ()), *bench_options.read_goals(goal)]
    stated = {str(name): bound for name, bound in spec.slo.items()} if spec is not None else {}
    bounds = bench_options.read_slo(slo) or stated
    if not bounds and {g.metric for g in goals} & {"goodput", "slo_attainment"}:
        raise WrongInput(
            "a goal on goodput or slo_attainment needs a bound per request, e.g. --slo 'ttft<=400ms'"
        )
    charged = bench_options.read_price(price, currency) or (spec.price if spec is not None else None)
    if charged is None and "cost_per_million_output_tokens" in {g.metric for g in goals}:
        raise WrongInput("a goal on cost needs --price, the server's price per hour")
    workload = bench_options.read_workload(asked, spec)
    wanted = bench_options.read_target(model, header, extra_body, api_key_env, timeout)
    _check_place(out)
    progress = console_progress()
    with bench_target.opened(target, wanted, spec, progress) as found:
        notes = [found.note] if found.note else []
        run = _measure(found, workload, asked, bounds, charged, goals, progress, text, notes)
    place = save_run(run, out if out is not None else _default_place(run))
    if as_json:
        print(json.dumps(to_json(run, goals, place, notes), indent=2))
    else:
        print(summary(run, goals, place, notes))
    if not run.valid:
        first = run.incomplete_reason or broken(run)[0].reason
        raise InvalidRun(f"the run is not valid: {first}")
    return 0


def _measure(
    found: Open,
    workload: Workload,
    asked: bench_options.Asked,
    bounds: dict[str, float],
    price: Price | None,
    goals: list[Goal],
    progress: Progress,
    text: Any,
    notes: list[str],
) -> Run:
    from rooftune.measure.run_bench import bench as measure
    from rooftune.measure.target import server_tokenizer
    from rooftune.spec import parse_quantity
    from rooftune.workload.schedule import build_schedule

    seed = workload.seed
    rate = workload.arrivals.rate
    if rate == "auto":
        rate = _settle_rate(found, workload, progress)
        notes.append(
            f"rate auto: {workload.arrivals.load:.0%} of what all users together reach is {rate:.3g}/s"
        )
    seconds = None if asked.duration is None else parse_quantity(asked.duration, "time")
    count = _count(asked, workload, rate, seconds, goals)
    counter = None
    if workload.prompts.source == "synthetic":
        counter = server_tokenizer(found.target)
    schedule = build_schedule(workload, requests=count, rate=rate, seed=seed, count_tokens=counter)
    if schedule.exact_lengths is False:
        why = (
            "the server has no /tokenize"
            if counter is None
            else "the length is below the chat template's own"
        )
        notes.append(f"input lengths are approximate: {why}")
    closed = workload.arrivals.process == "concurrency"
    run = measure(
        found.target,
        schedule,
        slo=bounds,
        price=price,
        server=found.server,
        roofs=_roofs(found, progress),
        label="bench",
        progress=progress,
        text=text,
        percentiles=tuple(g.metric.rsplit("_", 1)[-1] for g in goals),
        maximum_seconds=seconds if closed else None,
    )
    lasted = (run.end_ns - run.begin_ns) / 1e9
    if closed and seconds is not None and run.complete and lasted < seconds and len(run.records) == count:
        notes.append(
            f"all {count} prepared requests were answered after {lasted:.1f} s: use --requests for more"
        )
    return run


def _settle_rate(found: Open, workload: Workload, progress: Progress) -> float:
    """``load`` times the rate that a closed loop with many users reaches."""
    from rooftune.measure.pilot import carried_rate, pilot_schedule
    from rooftune.measure.run_bench import bench as measure

    schedule = pilot_schedule(workload, _PILOT_USERS, workload.seed)
    return workload.arrivals.load * carried_rate(
        measure(found.target, schedule, label="finding the rate", progress=progress)
    )


def _roofs(found: Open, progress: Progress) -> Any:
    """The roofs of this machine, where the server runs on it and tells its model's facts."""
    from rooftune.errors import EnvironmentProblem
    from rooftune.hardware.roofs import probe

    if found.server is None or not found.on_this_machine:
        return None
    if not (found.server.resolved() or {}).get("model"):
        return None
    try:
        return probe(quick=True, progress=progress)
    except EnvironmentProblem as problem:
        progress.say(f"no roofs: {problem}")
        return None


def _count(
    asked: bench_options.Asked,
    workload: Workload,
    rate: float | None,
    seconds: float | None,
    goals: list[Goal],
) -> int:
    """How many requests are prepared: as asked, as the duration gives, or enough for the goals' percentiles."""
    from rooftune.metrics.percentile import minimum_sample

    if asked.requests is not None:
        return asked.requests
    if seconds is not None:
        if rate is not None:
            return max(1, math.ceil(rate * seconds))
        users = workload.arrivals.users or 1
        return min(_CLOSED_LOOP_ROOM, max(users, math.ceil(users * seconds * _FASTEST_USER)))
    if workload.requests != "auto":
        return workload.requests
    shares = [
        int(p[1:]) / 100 for g in goals if (p := g.metric.rsplit("_", 1)[-1])[:1] == "p" and p[1:].isdigit()
    ]
    return max([_DEFAULT_REQUESTS, *map(minimum_sample, shares)])


def _check_place(out: Path | None) -> None:
    """Before the load, not after it: whether the run can be kept where it was asked."""
    if (
        out is not None
        and out.exists()
        and not (out.is_dir() and ((out / "run.json").exists() or not any(out.iterdir())))
    ):
        raise WrongInput(f"{out} is there already and is not a run; name another folder with --out")


def _default_place(run: Run) -> Path:
    """$ROOFTUNE_RUNS, else the user's state folder."""
    if own := os.environ.get("ROOFTUNE_RUNS"):
        return Path(own).expanduser() / run.id
    base = os.environ.get("XDG_STATE_HOME")
    state = Path(base).expanduser() if base else Path.home() / ".local" / "state"
    return state / "rooftune" / "runs" / run.id
