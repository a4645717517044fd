"""rooftune techniques: the catalogue in words."""

from __future__ import annotations

import json
import textwrap
from typing import Annotated, Any

import typer

from rooftune.errors import WrongInput
from rooftune.runtimes.contract import Mapping, TechniqueTable
from rooftune.techniques.card import Card
from rooftune.techniques.catalogue import all_cards, card
from rooftune.techniques.facts import FACTS
from rooftune.techniques.problems import PROBLEMS

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
_WIDTH = 98


def list_techniques(as_json: AsJson = False) -> None:
    """Every technique, by the problem that it answers."""
    tables = _tables()
    if as_json:
        print(json.dumps({"techniques": [_as_json(one, tables) for one in all_cards()]}, indent=2))
        return
    width = max(len(one.name) for one in all_cards())
    for number, problem in PROBLEMS.items():
        chosen = [one for one in all_cards() if one.problem == number]
        if not chosen:
            continue
        print(f"{number}. {problem.title}")
        for one in chosen:
            print(f"   {one.name:<{width}}  {'switch' if _reached(one, tables) else '      '}  {one.title}")
        print()
    print("'switch': the embedded engine can turn it on and off. More: rooftune techniques show NAME")


def show_technique(
    name: Annotated[str, typer.Argument(help="Name of the technique.")], as_json: AsJson = False
) -> None:
    """One technique: when it applies, what it can make worse, and how it shows that it is on."""
    one, tables = card(name), _tables()
    if as_json:
        print(json.dumps(_as_json(one, tables), indent=2))
        return
    for line in _words(one, tables):
        print(line)


def _tables() -> dict[str, TechniqueTable]:
    """Each runtime's table of techniques."""
    from rooftune.runtimes.registry import technique_table

    return {name: technique_table(name) for name in ("embedded", "url")}


def _reached(one: Card, tables: dict[str, TechniqueTable]) -> bool:
    mapping = tables["embedded"].get(one.name)
    return mapping is not None and bool(mapping.switches)


def _as_json(one: Card, tables: dict[str, TechniqueTable]) -> dict[str, Any]:
    return {
        "name": one.name,
        "title": one.title,
        "family": one.family,
        "problem": one.problem,
        "problem_title": PROBLEMS[one.problem].title,
        "summary": one.summary,
        "questions": [
            {"text": q.text, "fact": q.fact, "meaning": FACTS.get(q.fact) if q.fact else None}
            for q in one.questions
        ],
        "lossless": one.lossless,
        "can_worsen": list(one.can_worsen),
        "evidence_of_active": one.evidence_of_active,
        "source": one.source,
        "answers": list(one.answers),
        "knobs": [{"switch": knob.switch, "values": list(knob.values)} for knob in one.knobs],
        "in_engine": one.in_engine,
        "undoes_own_dequantization": one.undoes_own_dequantization,
        "notes": list(one.notes),
        "runtimes": {name: _mapping_json(table.get(one.name)) for name, table in tables.items()},
    }


def _mapping_json(mapping: Mapping | None) -> dict[str, Any]:
    if mapping is None:
        return {"switches": [], "reason": "the runtime's table does not name it"}
    return {"switches": list(mapping.switches), "reason": mapping.reason}


def _words(one: Card, tables: dict[str, TechniqueTable]) -> list[str]:
    lines = [f"{one.title} ({one.name})", "", *_wrap(one.summary), ""]
    lines += [f"Answers problem {one.problem}: {PROBLEMS[one.problem].title}", "First determine:"]
    for question in one.questions:
        answer = f"measured as {question.fact}" if question.fact else "not measured: settle it yourself"
        lines += _wrap(f"{question.text} ({answer})", "  - ")
    lines += ["", f"Causes: {', '.join(one.answers) or 'none'}"]
    lines.append(
        "Lossless: answers stay the same"
        if one.lossless
        else "Lossy: answers can change, quality is measured"
    )
    lines += ["", "It can make worse:"]
    for worse in one.can_worsen:
        lines += _wrap(worse, "  - ")
    lines += ["", *_wrap(f"Shows that it is on: {one.evidence_of_active}"), *_wrap(f"Source: {one.source}")]
    for note in one.notes:
        lines += _wrap(f"Note: {note}")
    lines.append("")
    for name, table in tables.items():
        mapping = table.get(one.name)
        if mapping is not None and mapping.switches:
            values = {knob.switch: knob.values for knob in one.knobs}
            told = [f"{s}={'|'.join(map(str, values[s]))}" if s in values else s for s in mapping.switches]
            lines.append(f"On the {name} runtime: {', '.join(told)}")
        else:
            reason = mapping.reason if mapping is not None else "its table does not name it"
            lines += _wrap(f"On the {name} runtime: no ({reason})")
    return lines


def _wrap(text: str, bullet: str = "") -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=bullet, subsequent_indent=" " * len(bullet))


def techniques(context: typer.Context) -> None:
    """The catalogue: every technique, when it applies, what it costs."""
    if context.invoked_subcommand is None:
        if context.args:
            raise WrongInput(f"unknown '{context.args[0]}'; write list or show NAME")
        list_techniques()


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.callback(invoke_without_command=True)(techniques)
    app.command(name="list")(list_techniques)
    app.command(name="show")(show_technique)
