"""Confirming: the final stack against the *original* baseline in fresh rounds, with a leave-one-out ablation.

All arms run in every round under the round's own schedule; rounds are spread over several starts of all servers. What
is not shown to pay is taken out: the arm without it was measured in the same rounds, so it becomes the
final configuration without further runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rooftune.compare.decide import ConfirmDecision, confirm
from rooftune.compare.effect import Effect, measure_effect
from rooftune.loop.proxies import values
from rooftune.loop.screen import Screened, merged
from rooftune.loop.trials import Arm, Trials
from rooftune.spec import Configuration, Goal
from rooftune.store.result import QualityOutcome
from rooftune.store.run import Run

BASELINE = "baseline"
FINAL = "final"
DEFAULTS = "defaults"


@dataclass(slots=True)
class Confirmation:
    """Arms, their runs in the order of the rounds, and what they decide for each technique of the stack."""

    arms: list[Arm]
    runs: dict[str, list[Run]]
    final: Arm
    final_runs_of: str
    defaults_runs_of: str | None
    """The arm whose runs are the final configuration's (an ablation's arm where something was taken out)."""
    decisions: dict[str, ConfirmDecision] = field(default_factory=dict)
    effects: dict[str, dict[str, Effect]] = field(default_factory=dict)
    """Technique -> metric -> effect of having it (with over without)."""
    taken_out: list[str] = field(default_factory=list)
    stopped_early: str | None = None

    @classmethod
    def begin(
        cls, baseline: Configuration, stack: Sequence[Screened], defaults: Configuration | None
    ) -> Confirmation:
        """Lay out the arms: baseline, final, one without each technique, and Rooftune's defaults where no arm is that."""
        final = baseline
        for one in stack:
            final = merged(final, one.candidate.change)
        arms = [Arm(BASELINE, baseline), Arm(FINAL, final)]
        if len(stack) > 1:
            for left_out in stack:
                reduced = baseline
                for one in stack:
                    if one is not left_out:
                        reduced = merged(reduced, one.candidate.change)
                arms.append(Arm(without(left_out.candidate.card.name), reduced))
        twin = next((arm.name for arm in arms if arm.configuration == defaults), None)
        if twin is None and defaults is not None:
            twin = DEFAULTS
            arms.append(Arm(DEFAULTS, defaults))
        return cls(arms, {arm.name: [] for arm in arms}, arms[1], FINAL, twin)

    @property
    def baseline_runs(self) -> list[Run]:
        return self.runs[BASELINE]

    @property
    def final_runs(self) -> list[Run]:
        return self.runs[self.final_runs_of]

    @property
    def defaults_runs(self) -> list[Run]:
        return self.runs[self.defaults_runs_of] if self.defaults_runs_of is not None else []


def without(name: str) -> str:
    return f"without-{name}"


def run_rounds(
    trials: Trials,
    confirmation: Confirmation,
    *,
    rounds: int,
    starts: int,
    requests: int,
    rate: float | None,
    expected_seconds: float,
    fresh_start: Callable[[], None],
    affordable: Callable[[int], bool],
) -> None:
    """Fill ``confirmation`` round by round.

    ``affordable(round)`` says whether the budget still has room for that round; confirming stops before one it does not.
    """
    for number in range(rounds):
        if not affordable(number):
            confirmation.stopped_early = f"the budget ended after {number} of {rounds} confirming rounds"
            break
        if number % max(1, rounds // starts) == 0:
            fresh_start()
            trials.start(confirmation.arms, "confirm", number)
        schedule = trials.schedule("confirm", number, requests, rate)
        for arm in trials.order(confirmation.arms, "confirm", number):
            run = trials.run(arm, schedule, stage="confirm", number=number, expected_seconds=expected_seconds)
            confirmation.runs[arm.name].append(run)


def decide(
    confirmation: Confirmation,
    stack: Sequence[Screened],
    deciding: Goal,
    watched: Sequence[Goal],
    quality: QualityOutcome | None,
) -> None:
    """Judge each technique by the stack with it against the stack without it, and take out the least useful that is not proven to pay."""
    for one in stack:
        name = one.candidate.card.name
        reference = BASELINE if len(stack) == 1 else without(name)
        _decide(confirmation, name, reference, FINAL, deciding, watched, quality, one.candidate.card.lossless)
    if len(stack) < 2:
        return
    useless = [
        (decision.gain.value, name)
        for name, decision in confirmation.decisions.items()
        if decision.decision != "accepted" and decision.gain is not None
    ]
    if not useless:
        return
    _, name = min(useless)
    confirmation.taken_out.append(name)
    confirmation.final_runs_of = without(name)
    confirmation.final = next(arm for arm in confirmation.arms if arm.name == without(name))
    left = [one for one in stack if one.candidate.card.name != name]
    if len(left) == 1:
        # With one left, the arm without the other is that technique alone against the baseline, measured in the same rounds.
        only = left[0].candidate.card
        _decide(confirmation, only.name, BASELINE, without(name), deciding, watched, quality, only.lossless)


def _decide(
    confirmation: Confirmation,
    name: str,
    reference: str,
    changed: str,
    deciding: Goal,
    watched: Sequence[Goal],
    quality: QualityOutcome | None,
    lossless: bool,
) -> None:
    before, after = confirmation.runs[reference], confirmation.runs[changed]
    effects = {
        name: measure_effect(name, values(before, name), values(after, name))
        for name in dict.fromkeys([deciding.metric, *(goal.metric for goal in watched)])
    }
    confirmation.effects[name] = effects
    confirmation.decisions[name] = confirm(
        deciding,
        effects,
        [g for g in watched if g.metric != deciding.metric],
        quality_passed=quality.passed if quality is not None else None,
        quality_reason=quality.statement if quality is not None else "",
        lossless=lossless,
    )
