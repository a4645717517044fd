"""The result on a terminal: verdict, goals, techniques with their reasons, what to do next. Plain lines when piped."""

from __future__ import annotations

import sys
from typing import IO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rooftune.report import labels, summary, words
from rooftune.store.result import Result, TechniqueOutcome

_STYLES = {
    "improved": "bold green",
    "no effect": "bold",
    "regressed": "bold red",
    "inconclusive": "bold yellow",
    "invalid": "bold white on red",
}
_DECISION_STYLES = {"accepted": "green", "rejected": "red", "inconclusive": "yellow", "failed": "magenta"}
_PLAIN_WIDTH = 110


def print_result(result: Result, file: IO[str] | None = None, configuration_file: str | None = None) -> None:
    """Write the summary to ``file`` (standard output by default).

    On a terminal with colours and its width; anywhere else plain text of a fixed width, so that logs look alike.
    """
    stream = file or sys.stdout
    terminal = bool(getattr(stream, "isatty", lambda: False)())
    console = Console(
        file=stream,
        force_terminal=None if terminal else False,
        no_color=None if terminal else True,
        width=None if terminal else _PLAIN_WIDTH,
        highlight=False,
        emoji=False,
        markup=False,
    )
    console.print(summarize(result, configuration_file))


def summarize(result: Result, configuration_file: str | None = None) -> RenderableType:
    """The summary as one Rich renderable. Text of others is shown as it is, never read as markup or escapes."""
    parts: list[RenderableType] = [_headline(result), Text()]
    if result.goals:
        parts += [_goals(result), Text()]
    parts += [_proof(result), Text()]
    tried = [t for t in _ordered(result) if t.decision in summary.TRIED]
    if tried:
        parts += [_techniques(tried, result.plan.get("deciding")), Text()]
    rest = len(result.techniques) - len(tried)
    if rest:
        parts += [
            Text(
                f"{words.plural(rest, 'technique')} do not apply or were not tried; the report says why.",
                "dim",
            ),
            Text(),
        ]
    for line in result.side_effects:
        parts.append(_pair("Got worse", line))
    parts += _next(result, configuration_file)
    return Group(*parts)


def _ordered(result: Result) -> list[TechniqueOutcome]:
    return [result.techniques[index] for index in summary.in_order(result)]


def _headline(result: Result) -> RenderableType:
    sign, word, _ = labels.VERDICTS[result.verdict]
    head = Text.assemble(
        (f" {sign} {word} ", _STYLES[result.verdict]), "  ", words.one_line(result.statement)
    )
    if not result.partial:
        return head
    reason = words.one_line(result.partial_reason or "it was stopped before the end")
    return Group(head, Text(f" ! Partial result: {reason}", "bold magenta"))


def _goals(result: Result) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, header_style="dim")
    for name in ("Goal", "Target", "Baseline", "Final", "Effect (95 %)", ""):
        table.add_column(
            name, justify="right" if name in ("Target", "Baseline", "Final") else "left", overflow="fold"
        )
    money = summary.currency(result)
    for goal in result.goals:
        met = summary.met_words(goal)
        sign = {"met": "✓ met", "missed": "✗ missed"}.get(met, "? not decided")
        table.add_row(
            Text(words.one_line(labels.label(goal.metric))),
            Text(words.one_line(labels.bound(goal.target))),
            Text(labels.value(goal.metric, goal.baseline, words.one_line(goal.unit), money)),
            Text(labels.value(goal.metric, goal.final, words.one_line(goal.unit), money), "bold"),
            Text(summary.goal_effect(goal)),
            Text(
                sign + (f" ({words.one_line(goal.reason)})" if goal.reason else ""),
                {"met": "green", "missed": "red"}.get(met, "yellow"),
            ),
        )
    return table


def _proof(result: Result) -> RenderableType:
    strength = summary.strength(result)
    lines = [_pair("How sure", ". ".join([strength.word, *strength.lines]))]
    if result.quality is not None:
        lines.append(_pair("Quality", result.quality.statement))
    if result.cost is not None:
        cost, full = (
            result.cost,
            result.cost.final_saturated is not None and result.cost.baseline_saturated is not None,
        )
        before = cost.baseline_saturated if full else cost.baseline_per_million_output_tokens
        after = cost.final_saturated if full else cost.final_per_million_output_tokens
        where = "with all slots busy" if full else f"at {summary.offered_load(result)}"
        text = f"{words.money(before, cost.currency)} → {words.money(after, cost.currency)} per 1M output tokens, {where}"
        lines.append(_pair("Cost", text + (f" ({cost.reason})" if cost.reason else "")))
    for arm in ("baseline", "final"):
        found = result.bottleneck.get(arm)
        if found is not None:
            sure = f", {labels.STATUSES[found.status]}" + (
                f" with confidence {words.percent(found.confidence, 2)}"
                if found.confidence is not None
                else ""
            )
            lines.append(
                _pair(
                    "Bottleneck" if arm == "baseline" else "  now",
                    f"{labels.cause(found.cause)} ({found.cause}{sure})",
                )
            )
    return Group(*lines)


def _techniques(tried: list[TechniqueOutcome], deciding: str | None) -> RenderableType:
    """One line of measurement each, of the metric that decides; the page has the others."""
    lines: list[RenderableType] = [Text("Techniques", "bold")]
    for technique in tried:
        sign, word = labels.DECISIONS[technique.decision]
        head = Text.assemble(
            (f"{sign} {word:<12} ", _DECISION_STYLES.get(technique.decision, "")),
            (words.one_line(technique.title), "bold"),
        )
        lines.append(Padding(head, (0, 0, 0, 2)))
        lines.append(Padding(Text(words.one_line(technique.reason)), (0, 0, 0, 17)))
        shown = [deciding] if deciding in technique.measured else list(technique.measured)[:1]
        for metric in shown:
            effect = technique.measured[metric]
            predicted = next((p for p in technique.predicted if p.metric == metric), None)
            said = (
                f"; predicted × {words.number(predicted.low, 2)} to {words.number(predicted.high, 2)}"
                if predicted
                else ""
            )
            text = f"alone, {labels.label(metric)}: {words.ratio(effect)}, measured × {words.number(effect.value, 2)}{said}"
            lines.append(Padding(Text(words.one_line(text), "dim"), (0, 0, 0, 17)))
    return Group(*lines)


def _next(result: Result, configuration_file: str | None) -> list[RenderableType]:
    lines: list[RenderableType] = []
    if configuration_file and result.verdict == "improved":
        lines.append(_pair("Use it", f"rooftune serve --config {configuration_file}"))
    back = summary.rollback(result)
    if back and result.verdict == "improved":
        lines.append(_pair("Go back", back))
    if result.next_step:
        lines.append(_pair("Next", result.next_step))
    if result.report:
        lines.append(_pair("Report", result.report))
    return lines


def _pair(name: str, text: str) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=11, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(name, "dim"), Text(words.one_line(text)))
    return grid
