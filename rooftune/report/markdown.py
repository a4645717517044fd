"""The result as Markdown, for a pull request or a wiki. Text of others is escaped: it never becomes markup."""

from __future__ import annotations

import re

from rooftune.report import labels, summary, words
from rooftune.store.result import Result

_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~>$]|^[-+]|(?<=^[0-9])[.)])")


def to_markdown(result: Result) -> str:
    """Verdict, goals, proof, techniques, configuration; every table cell on one line."""
    sign, word, _ = labels.VERDICTS[result.verdict]
    lines = [
        f"# {sign} {word}: {text(str(result.model.get('name', result.spec.get('model', 'model'))))}",
        "",
        text(result.statement),
        "",
    ]
    if result.partial:
        lines += [
            f"> **Partial result.** {text(result.partial_reason or 'It was stopped before the end.')}",
            "",
        ]
    if result.verdict == "invalid":
        lines += ["> **Invalid.** These numbers must not be used for a decision.", ""]
    lines += _goals(result) + _proof(result) + _changes(result) + _techniques(result)
    if result.next_step:
        lines += [f"**Next:** {text(result.next_step)}", ""]
    lines.append(
        f"Rooftune {text(result.rooftune_version)}, {text(words.moment(result.created_at))}, {words.duration(result.seconds)}."
    )
    return "\n".join(lines) + "\n"


def text(value: str) -> str:
    """``value`` on one line with every mark of Markdown and HTML escaped."""
    escaped = _SPECIAL.sub(r"\\\1", words.one_line(value).replace("&", "&amp;").replace("<", "&lt;"))
    return escaped.replace(r"\>", "&gt;")


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    return [
        f"| {' | '.join(header)} |",
        f"|{'---|' * len(header)}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]


def _goals(result: Result) -> list[str]:
    if not result.goals:
        return []
    money = summary.currency(result)
    rows = [
        [
            text(labels.label(goal.metric)),
            text(labels.bound(goal.target)),
            text(labels.value(goal.metric, goal.baseline, goal.unit, money)),
            text(labels.value(goal.metric, goal.final, goal.unit, money)),
            text(labels.value(goal.metric, goal.defaults, goal.unit, money)),
            text(summary.goal_effect(goal)),
            summary.met_words(goal) + (f" ({text(goal.reason)})" if goal.reason else ""),
        ]
        for goal in result.goals
    ]
    header = ["Goal", "Target", "Baseline", "Final", "Rooftune defaults", "Effect, 95 %", "Outcome"]
    return ["## Goals", "", *_table(header, rows)]


def _proof(result: Result) -> list[str]:
    strength = summary.strength(result)
    lines = ["## How sure, at what price", "", f"- **{strength.word}.** {text('. '.join(strength.lines))}"]
    if result.quality is not None:
        lines.append(f"- Quality: {text(result.quality.statement)}")
    else:
        lines.append(f"- Quality: not measured. {text(result.missing.get('quality', ''))}".rstrip())
    if result.cost is not None:
        cost = result.cost
        for where, before, after in (
            (
                f"at {summary.offered_load(result)}",
                cost.baseline_per_million_output_tokens,
                cost.final_per_million_output_tokens,
            ),
            ("with all slots busy", cost.baseline_saturated, cost.final_saturated),
        ):
            money = f"{words.money(before, cost.currency)} → {words.money(after, cost.currency)}"
            lines.append(f"- Cost per 1M output tokens, {text(where)}: {text(money)}")
    for arm in ("baseline", "final"):
        found = result.bottleneck.get(arm)
        if found is not None:
            lines.append(
                f"- Bottleneck, {arm}: {text(labels.cause(found.cause))} ({text(found.cause)}, {labels.STATUSES[found.status]}). "
                + text(" ".join(found.evidence))
            )
    lines += [f"- Got worse: {text(line)}" for line in result.side_effects]
    return [*lines, ""]


def _changes(result: Result) -> list[str]:
    changed = summary.changes(result)
    if not changed:
        return ["## What changed", "", "Nothing.", ""]
    rows = [
        [text(c.switch), text(c.before), text(c.after), text(", ".join(c.because) or "–")] for c in changed
    ]
    back = summary.rollback(result)
    end = [f"Go back: {text(back)}", ""] if back else []
    return ["## What changed", "", *_table(["Switch", "Before", "After", "Because of"], rows), *end]


def _techniques(result: Result) -> list[str]:
    rows = []
    for index in summary.in_order(result):
        technique = result.techniques[index]
        predicted = "; ".join(
            f"{labels.label(p.metric)} × {words.number(p.low, 2)} to {words.number(p.high, 2)}"
            for p in technique.predicted
        )
        measured = "; ".join(f"{labels.label(m)} {words.ratio(e)}" for m, e in technique.measured.items())
        rows.append(
            [
                text(technique.title),
                labels.DECISIONS[technique.decision][1],
                text(predicted or "–"),
                text(measured or "–"),
                text(technique.reason),
            ]
        )
    return (
        ["## Techniques", "", *_table(["Technique", "Decision", "Predicted", "Measured", "Reason"], rows)]
        if rows
        else []
    )
