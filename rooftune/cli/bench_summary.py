"""What a measurement says, in words for a terminal and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rooftune.metrics.percentile import minimum_sample
from rooftune.metrics.samples import offered
from rooftune.spec import Goal, format_quantity
from rooftune.store.run import Gate, MetricValue, Run

_LATENCIES = (
    ("ttft", "time to first token"),
    ("tpot", "time per output token"),
    ("itl", "inter-token latency"),
    ("e2e", "whole answer"),
)


def goal_rows(run: Run, goals: Sequence[Goal]) -> list[dict[str, Any]]:
    """Each goal with its value; ``met`` None where the metric has none. ``certain``: its bound is within the goal too."""
    rows = []
    for goal in goals:
        metric = run.metric(goal.metric)
        value = None if metric is None else metric.value
        bound = None if metric is None else (metric.high if goal.sign == "<=" else metric.low)
        met = None if value is None else goal.met(value)
        rows.append(
            {
                "metric": goal.metric,
                "target": str(goal),
                "value": value,
                "met": met,
                "certain": None if met is None or bound is None else goal.met(bound) == met,
                "reason": metric.reason if metric is not None else "no such metric",
            }
        )
    return rows


def as_json(run: Run, goals: Sequence[Goal], place: Path, notes: Sequence[str]) -> dict[str, Any]:
    return {
        "valid": run.valid,
        "complete": run.complete,
        "incomplete_reason": run.incomplete_reason,
        "target": run.target,
        "workload": run.workload,
        "schedule_hash": run.schedule_hash,
        "goals": goal_rows(run, goals),
        "gates": [dataclasses.asdict(gate) for gate in run.gates],
        "metrics": {
            m.name: {"value": m.value, "unit": m.unit, "low": m.low, "high": m.high, "reason": m.reason}
            for m in run.metrics
        },
        "ledger": [entry.to_json() for entry in run.ledger],
        "notes": list(notes),
        "run": str(place),
    }


def summary(run: Run, goals: Sequence[Goal], place: Path, notes: Sequence[str]) -> str:
    """A page of plain text."""
    lines = [_what(run), _how(run), ""]
    lines += [_latency(run, name, title) for name, title in _LATENCIES]
    lines += ["", *_rates(run)]
    if goals:
        lines += [
            "",
            "Goals",
            *(_goal(row, goal) for row, goal in zip(goal_rows(run, goals), goals, strict=True)),
        ]
    lines += ["", *_validity(run)]
    lines += [f"Note: {note}" for note in notes]
    lines += ["", f"Kept in {place}", f"Next: {next_command(run, place)}"]
    return "\n".join(lines)


def next_command(run: Run, place: Path) -> str:
    samples = next((g for g in run.gates if g.name == "samples" and g.ok is False), None)
    if samples is not None and samples.limit is not None:
        return f"the same command with --requests {samples.limit:.0f}"
    return f"rooftune diagnose {place}"


def broken(run: Run) -> list[Gate]:
    return [gate for gate in run.gates if gate.ok is False]


def _what(run: Run) -> str:
    kind = " ".join(str(p) for p in (run.target.get("runtime"), run.target.get("version")) if p)
    return f"{run.target['model']} at {run.target['url']}" + (f" ({kind})" if kind else "")


def _how(run: Run) -> str:
    work = run.workload
    if work["process"] == "concurrency":
        load = f"{work['users']} users in a closed loop"
        load += f", {work['think']:g} s think time" if work["think"] else ""
    else:
        load = f"{work['process']} arrivals at {work['rate']:.3g}/s"
    due = offered(run.records)
    failed = sum(not record.succeeded for record in due)
    seconds = (run.end_ns - run.begin_ns) / 1e9
    return (
        f"{work['source']}, {load}, seed {work['seed']}: {len(due) - failed} answered, {failed} failed, "
        f"in {seconds:.1f} s"
    )


def _latency(run: Run, name: str, title: str) -> str:
    n = len(offered(run.records))
    parts, reasons = [], []
    for statistic in ("p50", "p95", "p99"):
        metric = run.metric(f"{name}_{statistic}")
        if metric is None:
            continue
        needed = minimum_sample(int(statistic[1:]) / 100)
        if metric.value is not None:
            bound = f" (at most {format_quantity(metric.high, 'time')})" if metric.high is not None else ""
            parts.append(f"{statistic} {format_quantity(metric.value, 'time')}{bound}")
        elif n < needed:
            parts.append(f"{statistic} needs {needed} requests")
        else:
            parts.append(f"{statistic} —")
            reasons.append(str(metric.reason))
    tail = f"   [{reasons[0]}]" if reasons else ""
    return f"  {title:<22} {'   '.join(parts)}{tail}"


def _rates(run: Run) -> list[str]:
    def line(title: str, text: str) -> str:
        return f"  {title:<22} {text}"

    def value(name: str) -> MetricValue:
        return run.metric(name) or MetricValue(name, None, "", reason="not computed")

    lines = []
    requests, output, total = (
        value(n) for n in ("requests_per_second", "output_tokens_per_second", "total_tokens_per_second")
    )
    told = [
        f"{m.value:.4g} {what}"
        for m, what in ((requests, "requests/s"), (output, "output tokens/s"), (total, "tokens/s in all"))
        if m.value is not None
    ]
    lines.append(line("throughput", ", ".join(told) if told else f"— [{requests.reason}]"))
    if run.slo:
        good, share = value("goodput"), value("slo_attainment")
        if good.value is not None and share.value is not None:
            bounds = ", ".join(f"{k} {format_quantity(v, 'time')}" for k, v in run.slo.items())
            lines.append(
                line("goodput", f"{good.value:.3g} requests/s, {share.value:.1%} of requests within {bounds}")
            )
    mfu, mbu = value("mfu"), value("mbu")
    if mfu.value is not None or mbu.value is not None:
        shown = [f"{n} {m.value:.1%}" for n, m in (("MFU", mfu), ("MBU", mbu)) if m.value is not None]
        lines.append(line("against the roofs", ", ".join(shown)))
    else:
        lines.append(line("against the roofs", f"— [{mbu.reason}]"))
    cost = value("cost_per_million_output_tokens")
    if cost.value is not None:
        lines.append(line("cost", f"{cost.value:.4g} {cost.unit} per million output tokens at this load"))
    return lines


def _goal(row: dict[str, Any], goal: Goal) -> str:
    if row["met"] is None:
        return f"  unknown  {goal}: {row['reason']}"
    value = format_quantity(row["value"], goal.dimension)
    doubt = ", but the sample does not settle it" if row["certain"] is False else ""
    return f"  {'met' if row['met'] else 'MISSED':<8} {goal}: {value}{doubt}"


def _validity(run: Run) -> list[str]:
    wrong = broken(run)
    if not run.complete:
        lines = [f"NOT VALID: {run.incomplete_reason}"]
    elif wrong:
        lines = ["NOT VALID: best reading only"]
    else:
        lines = ["Valid: every check that could be made was passed"]
    lines += [f"  {gate.name}: {gate.reason}" for gate in wrong]
    unjudged = [gate for gate in run.gates if gate.ok is None]
    if unjudged:
        lines.append("  not judged: " + "; ".join(f"{gate.name} ({gate.reason})" for gate in unjudged))
    return lines
