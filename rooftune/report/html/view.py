"""Everything that the page shows, worked out; the templates only place it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from rooftune.report import facts, labels, summary, words
from rooftune.report.html import effect_chart, goal_chart, latency_chart, roof_chart, split_chart
from rooftune.spec import GOAL_DIMENSIONS, QUALITY_DIMENSIONS, parse_quantity
from rooftune.store.result import Interval, Result, TechniqueOutcome

_MOST_TILES = 5
_FILL_TO = 3
_WORTH_A_TILE = (
    "ttft_p95",
    "tpot_p95",
    "e2e_p95",
    "output_tokens_per_second",
    "ttft_p50",
    "tpot_p50",
    "e2e_p50",
)
_FIRST_METRICS = (
    "slo_attainment",
    "goodput",
    "ttft",
    "ttft_answer",
    "tpot",
    "itl",
    "e2e",
    "requests",
    "output",
    "input",
    "total",
)


@dataclass(frozen=True, slots=True)
class Tile:
    metric: str
    title: str
    meaning: str
    before: str
    after: str
    effect: str
    tone: effect_chart.Tone
    goal: str | None
    met: Literal["met", "missed", "not decided", "no goal"]
    chart: Markup | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class TableRow:
    metric: str
    title: str
    meaning: str
    values: list[str]
    effect: str
    has_effect: bool
    tone: effect_chart.Tone


@dataclass(frozen=True, slots=True)
class TechniqueView:
    outcome: TechniqueOutcome
    change: list[tuple[str, str]]
    rows: list[effect_chart.EffectRow]
    active: str


def tiles(result: Result) -> list[Tile]:
    """Goals on performance first; then headline effects without a goal, so that what got worse is seen as well."""
    money = summary.currency(result)
    shown = [
        _goal_tile(result, i, money)
        for i, goal in enumerate(result.goals)
        if goal.metric not in QUALITY_DIMENSIONS
    ]
    taken = {tile.metric for tile in shown}
    for metric in _WORTH_A_TILE:
        if len(shown) >= _FILL_TO:
            break
        if metric not in taken and metric in result.effects and metric in result.table:
            shown.append(_effect_tile(result, metric, money))
    return shown[:_MOST_TILES]


def _goal_tile(result: Result, index: int, money: str) -> Tile:
    goal = result.goals[index]
    return Tile(
        goal.metric,
        labels.label(goal.metric),
        labels.meaning(goal.metric),
        labels.value(goal.metric, goal.baseline, goal.unit, money),
        labels.value(goal.metric, goal.final, goal.unit, money),
        summary.goal_effect(goal),
        effect_chart.tone(goal.metric, goal.effect),
        labels.bound(goal.target),
        "not decided" if goal.met is None else "met" if goal.met else "missed",
        goal_chart.goal_chart(goal.metric, goal.baseline, goal.final, goal.target_value, goal.sign),
        goal.reason,
    )


def _effect_tile(result: Result, metric: str, money: str) -> Tile:
    row, effect = result.table[metric], result.effects[metric]
    return Tile(
        metric,
        labels.label(metric),
        labels.meaning(metric),
        labels.value(metric, row.get("baseline"), currency=money),
        labels.value(metric, row.get("final"), currency=money),
        words.ratio(effect),
        effect_chart.tone(metric, effect),
        None,
        "no goal",
        goal_chart.goal_chart(metric, row.get("baseline"), row.get("final"), None, ""),
        None,
    )


def table(result: Result) -> tuple[list[str], list[TableRow]]:
    """Arms that have a value (baseline and final always), and one row a metric, goals' metrics and latencies first."""
    present = {arm for row in result.table.values() for arm, value in row.items() if words.known(value)}
    arms = labels.arms_of({"baseline": 0, "final": 0, **dict.fromkeys(sorted(present), 0)})
    rows = []
    money = summary.currency(result)
    for metric in sorted(result.table, key=_rank):
        row = result.table[metric]
        effect = result.effects.get(metric)
        values = [labels.value(metric, row.get(arm), currency=money) for arm in arms]
        words_ = words.ratio(effect) if effect else result.missing.get(f"table.{metric}", "no interval")
        rows.append(
            TableRow(
                metric,
                labels.label(metric),
                labels.meaning(metric),
                values,
                words_,
                effect is not None,
                effect_chart.tone(metric, effect),
            )
        )
    return arms, rows


def _rank(metric: str) -> tuple[int, str]:
    for place, start in enumerate(_FIRST_METRICS):
        if metric == start or metric.startswith(f"{start}_"):
            return place, metric
    return len(_FIRST_METRICS), metric


def latency_charts(result: Result) -> list[latency_chart.LatencyChart]:
    families = dict.fromkeys(family for arm in result.latency.values() for family in arm)
    slo = result.spec.get("slo")
    charts = []
    for family in families:
        arms = {arm: values[family] for arm, values in result.latency.items() if values.get(family)}
        chart = latency_chart.latency_chart(
            family, arms, _bound(slo.get(family)) if isinstance(slo, dict) else None
        )
        if chart is not None:
            charts.append(chart)
    return charts


def _bound(value: Any) -> float | None:
    """An SLO in seconds, from a resolved spec (a number) or from one as written ("400ms")."""
    if isinstance(value, str):
        try:
            return parse_quantity(value, "time")
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and words.known(value) and value > 0 else None


def techniques(result: Result) -> tuple[list[TechniqueView], list[TechniqueView], Markup]:
    """Those that were tried, the others, and the axis that all of them share."""
    scale = effect_chart.common_scale(result.techniques)
    tried: list[TechniqueView] = []
    rest: list[TechniqueView] = []
    for index in summary.in_order(result):
        outcome = result.techniques[index]
        rows = effect_chart.effect_rows(outcome, scale)
        active = {True: "on", False: "was not on", None: "not known whether it was on"}[outcome.active]
        view = TechniqueView(
            outcome, [(k, words.setting(v)) for k, v in outcome.change.items()], rows, active
        )
        (tried if outcome.decision in summary.TRIED or outcome.measured else rest).append(view)
    return tried, rest, effect_chart.axis(scale)


def gates(result: Result) -> list[tuple[str, int, int, int]]:
    """Gate, and in how many runs it passed, failed, and could not be judged."""
    passed, failed, unknown = Counter[str](), Counter[str](), Counter[str]()
    for run in result.runs:
        for gate, ok in run.gates.items():
            (unknown if ok is None else passed if ok else failed)[gate] += 1
    names = dict.fromkeys([*passed, *failed, *unknown])
    return [(words.humanize(n), passed[n], failed[n], unknown[n]) for n in names]


def run_metrics(result: Result) -> list[str]:
    """Up to four metrics that the list of runs shows: the goals' own first."""
    there = {metric for run in result.runs for metric in run.metrics}
    wanted = [goal.metric for goal in result.goals if goal.metric in GOAL_DIMENSIONS] + list(_WORTH_A_TILE)
    return [metric for metric in dict.fromkeys(wanted) if metric in there][:4]


def cost_ratio(before: float | None, after: float | None) -> tuple[str, effect_chart.Tone]:
    """Cost has no interval of its own: a change below 1 % is not called one."""
    text = words.point_ratio(before, after)
    if (
        before is None
        or after is None
        or not words.known(before)
        or not words.known(after)
        or before <= 0
        or after <= 0
    ):
        return text, "unclear"
    change = after / before
    return text, "unclear" if abs(change - 1) < 0.01 else effect_chart.tone(
        "cost_per_million_output_tokens", Interval(change, change, change)
    )


def _processor(result: Result) -> str:
    """What it ran on, from wherever the environment tells it."""
    environment = result.environment
    for place in (environment, environment.get("machine"), environment.get("hardware"), result.roofs):
        if isinstance(place, dict):
            for key in ("device", "processor", "cpu"):
                if isinstance(place.get(key), str) and place[key]:
                    return str(place[key])
    return ""


def context(result: Result, configuration_file: str | None) -> dict[str, Any]:
    """The variables of the templates."""
    tried, rest, ratio_axis = techniques(result)
    arms, rows = table(result)
    roofs = {k: v for k, v in (result.roofs or {}).items() if not roof_chart._points(v)}
    return {
        "r": result,
        "verdict": labels.VERDICTS[result.verdict],
        "tiles": tiles(result),
        "goals_met": summary.goals_met(result),
        "strength": summary.strength(result),
        "changes": summary.changes(result),
        "rollback": summary.rollback(result),
        "configuration_file": configuration_file,
        "latency": latency_charts(result),
        "quantiles": latency_chart.QUANTILE_NAMES,
        "splits": split_chart.split_charts(result.time_split),
        "tried": tried,
        "rest": rest,
        "ratio_axis": ratio_axis,
        "arms": arms,
        "rows": rows,
        "gates": gates(result),
        "run_metrics": run_metrics(result),
        "bandwidth": roof_chart.bandwidth_chart(result.roofs),
        "roofs": facts.lines(roofs),
        "facts": facts.lines,
        "rounds": summary.confirming_rounds(result),
        "bound": labels.bound,
        "offered": summary.offered_load(result),
        "processor": _processor(result),
        "currency": summary.currency(result),
        "cost_ratio": cost_ratio,
        "labels": labels,
        "words": words,
        "summary": summary,
        "switches": list(
            dict.fromkeys(
                [*result.baseline_configuration, *result.final_configuration, *result.defaults_configuration]
            )
        ),
    }
