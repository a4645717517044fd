"""What every form of the report says alike: how sure it is, what changed, how to go back."""

from __future__ import annotations

from dataclasses import dataclass

from rooftune.report import labels, words
from rooftune.spec import GOAL_DIMENSIONS, QUALITY_DIMENSIONS
from rooftune.store.result import Decision, GoalOutcome, Result

FEWEST_ROUNDS = 6
"""Rounds below which nothing counts as confirmed."""
_ORDER: tuple[Decision, ...] = (
    "accepted",
    "rejected",
    "inconclusive",
    "failed",
    "not_applicable",
    "not_tried",
)
TRIED: frozenset[Decision] = frozenset({"accepted", "rejected", "inconclusive", "failed"})


@dataclass(frozen=True, slots=True)
class Strength:
    word: str
    lines: list[str]


@dataclass(frozen=True, slots=True)
class Change:
    switch: str
    before: str
    after: str
    because: list[str]


def confirming_rounds(result: Result) -> int:
    """Rounds of the confirming stage of which a valid run of each arm that was compared is there."""
    arms = {run.arm for run in result.runs if run.stage == "confirm"} & {"baseline", "final"}
    valid: dict[int, set[str]] = {}
    for run in result.runs:
        if run.stage == "confirm" and run.valid and run.round is not None:
            valid.setdefault(run.round, set()).add(run.arm)
    return sum(1 for seen in valid.values() if arms and arms <= seen)


def strength(result: Result) -> Strength:
    """How much the verdict can carry, in a word and in its reasons."""
    rounds = confirming_rounds(result)
    invalid = sum(1 for run in result.runs if not run.valid)
    lines = []
    if rounds:
        lines.append(
            f"{words.plural(rounds, 'round')}, both under the same requests{'; 95 % intervals' if result.effects else ''}"
        )
    floor = _noise(result) or _spread(result)
    if floor:
        lines.append(floor)
    effect = result.plan.get("minimum_detectable_effect")
    if isinstance(effect, int | float) and words.known(effect):
        lines.append(f"Smallest effect it could find: {words.percent(effect, 2)}")
    if invalid:
        lines.append(f"{invalid} of {words.plural(len(result.runs), 'run')} invalid and not used")
    if result.verdict == "invalid":
        word = "None: invalid"
    elif result.verdict == "inconclusive":
        word = "Not decided"
    elif rounds >= FEWEST_ROUNDS:
        word = "Confirmed"
    else:
        word = "Weak"
        lines.insert(0, f"Only {rounds} of the {FEWEST_ROUNDS} valid rounds that confirm")
    return Strength(word, lines)


def _noise(result: Result) -> str | None:
    """The A/A reading: how far two runs of the same configuration were apart."""
    readings = result.noise.get("aa")
    if not isinstance(readings, dict):
        return None
    worst: float | None = None
    for reading in readings.values():
        ends = [reading.get("low"), reading.get("high")] if isinstance(reading, dict) else [reading]
        for end in ends:
            if isinstance(end, int | float) and words.known(end) and end > 0:
                worst = max(worst or 0.0, abs(end - 1))
    return None if worst is None else f"Same configuration twice: within {words.percent(worst, 2)}"


def _spread(result: Result) -> str | None:
    spread = result.noise.get("baseline_spread")
    if not isinstance(spread, int | float) or not words.known(spread):
        return None
    metric = result.noise.get("metric")
    of = f" of {labels.label(metric)}" if isinstance(metric, str) else ""
    return f"Spread{of} between baseline rounds: {words.percent(spread, 2)}"


def changes(result: Result) -> list[Change]:
    """The switches that differ, and the accepted techniques that set them."""
    found = []
    before, after = result.baseline_configuration, result.final_configuration
    for switch in dict.fromkeys([*before, *after]):
        old, new = before.get(switch), after.get(switch)
        if old != new:
            because = [t.title for t in result.techniques if t.decision == "accepted" and switch in t.change]
            found.append(Change(switch, words.setting(old), words.setting(new), because))
    return found


def rollback(result: Result) -> str | None:
    """The line that goes back, as the loop wrote it, or the switches that it comes to. None when nothing changed."""
    written = next(
        (line for line in result.changes if line.lower().lstrip().startswith(("rollback", "roll back"))), None
    )
    if written is not None:
        return written.partition(":")[2].strip() or written
    back = [f"{c.switch} = {c.before}" for c in changes(result)]
    return f"set {', '.join(back)}" if back else None


def goals_met(result: Result) -> str:
    """``3 of 4 goals met``; goals that could not be judged are named apart."""
    if not result.goals:
        return "no goals were set"
    met = sum(1 for goal in result.goals if goal.met)
    unknown = sum(1 for goal in result.goals if goal.met is None)
    rest = f", {unknown} not decided" if unknown else ""
    return f"{met} of {words.plural(len(result.goals), 'goal')} met{rest}"


def goal_effect(goal: GoalOutcome) -> str:
    """The effect with its interval; without one the two values alone, and said so."""
    if goal.effect is not None and goal.baseline is not None and GOAL_DIMENSIONS.get(goal.metric) == "share":
        return words.points(goal.effect, goal.baseline)
    if goal.effect is not None:
        return words.ratio(goal.effect)
    if goal.metric in QUALITY_DIMENSIONS:
        return words.MISSING
    alone = words.point_ratio(goal.baseline, goal.final)
    return alone if alone == words.MISSING else f"{alone} (no interval)"


def met_words(goal: GoalOutcome) -> str:
    return {True: "met", False: "missed", None: "not decided"}[goal.met]


def offered_load(result: Result) -> str:
    """The load of the first two costs, in words that follow "at"."""
    basis = result.cost.basis.partition(";")[0].strip() if result.cost is not None else ""
    return basis.removeprefix("at ").removeprefix("At ") or "the offered load"


def currency(result: Result) -> str:
    if result.cost is not None:
        return result.cost.currency
    price = result.spec.get("price")
    return str(price.get("currency", "USD")) if isinstance(price, dict) else "USD"


def in_order(result: Result) -> list[int]:
    """Indices of the techniques, the accepted ones first."""
    return sorted(range(len(result.techniques)), key=lambda i: _ORDER.index(result.techniques[i].decision))


def verdict_line(result: Result) -> str:
    sign, word, plain = labels.VERDICTS[result.verdict]
    return f"{sign} {word}. {plain}"
