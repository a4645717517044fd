"""From a goal to a verdict: the stages in order. Each finished piece of work is in the journal before the next begins."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rooftune import __version__
from rooftune.compare.decide import deciding_goal
from rooftune.errors import WrongInput
from rooftune.hardware.floor import check_goals
from rooftune.hardware.roofs import Roofs, probe
from rooftune.loop import confirm as confirming
from rooftune.loop import qualify
from rooftune.loop.assemble import assemble
from rooftune.loop.candidates import applicable
from rooftune.loop.fleet import Fleet
from rooftune.loop.journal import Journal
from rooftune.loop.live import diagnose_live, diagnose_runs
from rooftune.loop.plan import LARGEST_STACK, Plan, make_plan, requests_for_goals
from rooftune.loop.proxies import run_goals
from rooftune.loop.readings import pooled_values
from rooftune.loop.screen import Screened, merged, screen_all
from rooftune.loop.state import State
from rooftune.loop.trials import Arm, Trials
from rooftune.measure.pilot import carried_rate
from rooftune.progress import Progress
from rooftune.runtimes.contract import Runtime
from rooftune.runtimes.embedded.facts import model_facts
from rooftune.runtimes.registry import runtime_for
from rooftune.select.candidates import Candidate
from rooftune.spec import Configuration, Spec
from rooftune.store.result import QualityOutcome, Result
from rooftune.store.run import Run

_CLOSING_SECONDS = 45.0
"""Kept back for quality, the rate with all slots busy, the last diagnosis and the report."""
_BASELINE_SECONDS = 12.0
_STARTED_TOGETHER = 0.6
"""A start's share of its own time where two start at once."""
_AROUND_A_RUN = 0.6
"""Seconds that a run takes besides its load: the short probe before, the record after."""
_MOST_SATURATING_USERS = 16


class Optimization:
    """One optimization in one folder."""

    def __init__(self, spec: Spec, folder: Path, *, resume: bool, progress: Progress) -> None:
        self.spec = spec
        self.folder = folder
        self.progress = progress
        self._resume = resume
        self.runtime: Runtime = runtime_for(spec)
        defaults = self.runtime.defaults()
        baseline: Configuration = {**defaults, **spec.baseline.techniques}
        self.runtime.check(baseline)
        self.state = State(baseline_configuration=baseline, defaults_configuration=defaults)
        if "restart" not in spec.permissions:
            raise WrongInput(
                "this spec does not allow restarts (allow: [load, restart]), and without them no technique can be tried; "
                "rooftune bench and rooftune diagnose work with load alone"
            )

    # -- what is checked before anything is written or started -------------------------------------------------------

    def check(self) -> None:
        """Refuse what cannot be: a missing model, a goal below the floor that physics sets. Raises WrongInput."""
        facts = model_facts(self.spec.model, self.progress) if self.spec.runtime.name == "embedded" else None
        roofs = probe(quick=True, progress=self.progress)
        self.roofs: Roofs = roofs
        self.state.roofs = roofs.to_json()
        if facts is not None:
            problems = check_goals(self.spec, facts, roofs)
            if problems:
                raise WrongInput(
                    f"goal out of reach: {problems[0]}"
                    + (f" (and {len(problems) - 1} more)" if problems[1:] else "")
                )

    # -- the loop ----------------------------------------------------------------------------------------------------

    def run(self) -> Result:
        """All stages. Interrupted, it gives the partial result of what is finished, marked so."""
        identity = {"spec": self.spec.model_dump(mode="json"), "version": __version__}
        self.journal = Journal(self.folder, identity, self._resume)
        interrupted: str | None = None
        with Fleet(self.runtime) as fleet:
            self.fleet = fleet
            self.trials = Trials(self.spec, fleet, self.journal, self.roofs, self.progress)
            if self.journal.resumed:
                self.progress.say(
                    f"Going on from {self.folder}: {self.journal.finished_runs} runs are already measured."
                )
            try:
                self._stages()
            except KeyboardInterrupt:
                interrupted = "interrupted; go on with --resume"
        try:
            return assemble(self, partial_reason=interrupted)
        finally:
            self.journal.close()

    def _stages(self) -> None:
        self._pilot()
        self._baseline()
        self._diagnose_baseline()
        self._screen()
        if self.state.stack:
            self._confirm()
            self._diagnose_final()
            self._saturate()

    def _pilot(self) -> None:
        """Settle ``rate: auto``: a closed loop on the baseline shows what it carries."""
        arrivals = self.spec.workload.arrivals
        if arrivals.process == "concurrency":
            return
        if arrivals.rate != "auto":
            self.state.rate = float(arrivals.rate or 0.0)
            return
        users = 2 * int(self.state.baseline_configuration.get("slots", 4))
        schedule = self.trials.busy_schedule("pilot", users)
        run = self.trials.run(self._arm(confirming.BASELINE), schedule, stage="pilot", number=0)
        self.state.pilot = run
        capacity = carried_rate(run)
        self.state.rate = round(capacity * arrivals.load, 3)
        self.progress.say(
            f"The baseline carries {capacity:.2f} requests/s with all slots busy; the load is {arrivals.load:g} times that, "
            f"{self.state.rate:.2f} requests/s."
        )

    def _baseline(self) -> None:
        """One longer run of the baseline: the first reading of the goals, and the evidence for the diagnosis."""
        asked = self.spec.workload.requests
        affordable = int(_BASELINE_SECONDS * (self.state.rate or 4.0))
        requests = max(24, min(requests_for_goals(self.spec), affordable)) if asked == "auto" else asked
        schedule = self.trials.schedule("baseline", 0, requests, self.state.rate)
        run = self.trials.run(self._arm(confirming.BASELINE), schedule, stage="baseline", number=0)
        self.state.baseline_run = run
        for goal, value in pooled_values(self.spec.goals.bounds, [run]).items():
            shown = f"{value:.4g}" if value is not None else "not readable yet"
            self.progress.say(f"Baseline {goal}: {shown}")

    def _diagnose_baseline(self) -> None:
        run = self.state.baseline_run
        assert run is not None
        diagnosis = diagnose_live(self, run, self._arm(confirming.BASELINE))
        self.state.baseline_diagnosis = diagnosis
        self.progress.say(f"Diagnosis: {diagnosis.best_reading}")

    # -- screening ---------------------------------------------------------------------------------------------------

    def _screen(self) -> None:
        """Screen what applies, stack what promises, look again, until nothing new applies or the screening share is spent."""
        state = self.state
        base_runs = [run for run in (state.baseline_run,) if run is not None]
        cause = state.baseline_diagnosis.primary if state.baseline_diagnosis else None
        stacked = state.baseline_configuration
        for iteration in range(LARGEST_STACK):
            candidates = [
                c
                for c in applicable(self, base_runs[-1], stacked, cause)
                if c.card.name not in state.screened
            ]
            if not candidates:
                break
            if state.plan is None:
                self._plan(len(candidates))
            stage = f"screen{iteration + 1}"
            candidates = self._affordable(stage, candidates)
            if not candidates:
                break
            assert state.plan is not None and state.deciding is not None
            base = Arm("baseline" if iteration == 0 else f"stack{iteration}", stacked)
            self.fleet.fresh_start()
            screened, base_runs = screen_all(
                self.trials, base, candidates, state.deciding, state.watched,
                stage=stage, rounds=state.plan.screen_rounds, requests=state.plan.requests_per_screen_run,
                rate=state.rate, expected_seconds=state.plan.screen_run_seconds,
            )  # fmt: skip
            state.screened.update({one.candidate.card.name: one for one in screened})
            for one in screened:
                self.progress.say(_told(one))
            added = self._stack(screened)
            if not added or len(state.stack) >= LARGEST_STACK:
                break
            for one in added:
                stacked = merged(stacked, one.candidate.change)
            # The best promising arm's own runs show where the time goes now, without further measurement.
            best = max(
                added, key=lambda s: s.decision.gain.value if s.decision and s.decision.gain else -math.inf
            )
            base_runs = [run for run in best.runs if run is not None]
            cause = diagnose_runs(self, base_runs).primary

    def _stack(self, screened: list[Screened]) -> list[Screened]:
        """Add the promising ones, best first, as long as they set different switches."""
        promising = sorted(
            (s for s in screened if s.promising),
            key=lambda s: -(s.decision.gain.value if s.decision and s.decision.gain else 0.0),
        )
        added: list[Screened] = []
        for one in promising:
            taken = {switch for other in self.state.stack for switch in other.candidate.change}
            if len(self.state.stack) < LARGEST_STACK and not taken & set(one.candidate.change):
                self.state.stack.append(one)
                added.append(one)
        return added

    def _plan(self, candidates: int) -> None:
        """Divide the budget, choose the deciding goal, and say both before they are spent."""
        state, run = self.state, self.state.baseline_run
        assert run is not None
        alone = sorted(
            (r.end_ns - r.scheduled_ns) / 1e9 for r in run.records if r.succeeded and r.end_ns is not None
        )
        request_seconds = (alone[len(alone) // 10] if alone else 5.0) + _AROUND_A_RUN
        rate = state.rate or _value(run, "requests_per_second") or 1.0
        value = self.journal.once(
            "plan",
            lambda: make_plan(
                self.spec, rate=rate, capacity=_value(run, "requests_per_second") or rate, request_seconds=request_seconds, start_seconds=_STARTED_TOGETHER * self.fleet.start_seconds(),
                elapsed=self.journal.elapsed(), candidates=candidates, closing_seconds=_CLOSING_SECONDS,
            ).to_json(),
        )  # fmt: skip
        state.plan = Plan(**value)
        requests = state.plan.requests_per_confirm_run
        before = pooled_values(self.spec.goals.bounds, [run])
        goals = run_goals(self.spec.goals.bounds, min(requests, state.plan.requests_per_screen_run))
        unread = {g.metric: _value(run, g.metric) for g in goals}
        readings = {**before, **unread}
        # A share stops telling at 100 %, so a missed bound on a time or a rate decides before a missed share.
        missed = [
            g
            for g in goals
            if g.dimension != "share" and (v := readings.get(g.metric)) is not None and not g.met(v)
        ]
        state.deciding = deciding_goal(missed, readings) or deciding_goal(goals, readings)
        if state.deciding is None:
            raise WrongInput(
                "no goal could be read on the baseline; give the spec goals on latency, attainment or throughput"
            )
        state.watched = [goal for goal in goals if goal.metric != state.deciding.metric]
        for line in state.plan.statements(state.deciding.metric):
            self.progress.say(line)

    def _affordable(self, stage: str, candidates: list[Candidate]) -> list[Candidate]:
        """Cut the list where screening would eat into what confirming needs; the rest is not tried, and why is kept.

        The choice is journaled: time decides it, and an interrupted loop must go on with the same arms.
        """
        plan = self.state.plan
        assert plan is not None

        def choose() -> list[str]:
            one = plan.screen_rounds * plan.screen_run_seconds + plan.start_seconds
            left = (
                1.05 * plan.budget_seconds
                - self.journal.elapsed()
                - plan.confirm_seconds(stack=2)
                - _CLOSING_SECONDS
            )
            # One share is the base arm's own.
            return [c.card.name for c in candidates[: max(0, int(left // one) - 1)]]

        chosen = set(self.journal.once(f"{stage}/candidates", choose))
        for candidate in candidates:
            if candidate.card.name not in chosen:
                self.state.untried[candidate.card.name] = (
                    "the budget did not afford screening it; raise budget.time"
                )
        return [c for c in candidates if c.card.name in chosen]

    # -- confirming --------------------------------------------------------------------------------------------------

    def _confirm(self) -> None:
        state, plan = self.state, self.state.plan
        assert plan is not None and state.deciding is not None
        self.fleet.fresh_start()

        def affordable(number: int) -> bool:
            if number == 0 or self.journal.has(f"run/confirm-{number:02d}-{confirming.BASELINE}"):
                return True
            arms = 3 + (len(state.stack) if len(state.stack) > 1 else 0)
            # A hard stop only well past the budget: six whole rounds are worth more than a budget kept to the second.
            return self.journal.elapsed() + arms * plan.confirm_run_seconds < 1.1 * plan.budget_seconds

        with_defaults = self._fit_stack(plan)
        state.confirmation = confirming.Confirmation.begin(
            state.baseline_configuration, state.stack, state.defaults_configuration if with_defaults else None
        )
        confirming.run_rounds(
            self.trials, state.confirmation,
            rounds=plan.confirm_rounds, starts=plan.confirm_starts, requests=plan.requests_per_confirm_run,
            rate=state.rate, expected_seconds=plan.confirm_run_seconds, fresh_start=self.fleet.fresh_start,
            affordable=affordable,
        )  # fmt: skip
        measured = state.confirmation.final
        state.quality = self._quality(measured)
        confirming.decide(state.confirmation, state.stack, state.deciding, state.watched, state.quality)
        if state.confirmation.final is not measured:
            state.quality = self._quality(state.confirmation.final)
        for name, decision in state.confirmation.decisions.items():
            self.progress.say(f"{name}: {decision.decision} – {decision.reason}")

    def _fit_stack(self, plan: Plan) -> bool:
        """Make room for Rooftune's defaults as an arm: they tell more than the weakest of three. False where even so they do not fit.

        The choice is journaled, like every choice that time decides.
        """
        state = self.state

        def choose() -> dict[str, Any]:
            left = 1.05 * plan.budget_seconds - self.journal.elapsed() - _CLOSING_SECONDS
            size = len(state.stack)
            while size > 2 and left < plan.confirm_seconds(size, defaults=True):
                size -= 1
            return {"size": size, "defaults": left >= plan.confirm_seconds(size, defaults=True)}

        chosen = self.journal.once("confirm/arms", choose)
        for one in state.stack[chosen["size"] :]:
            state.untried[one.candidate.card.name] = (
                "the budget did not afford confirming it; raise budget.time"
            )
        del state.stack[chosen["size"] :]
        if not chosen["defaults"]:
            self.progress.say("The budget does not afford Rooftune's defaults as an arm of their own.")
        return bool(chosen["defaults"])

    def _diagnose_final(self) -> None:
        confirmation = self.state.confirmation
        assert confirmation is not None
        runs = confirmation.final_runs
        if runs:
            self.state.final_diagnosis = diagnose_runs(self, runs)
            self.progress.say(
                f"Diagnosis of the final configuration: {self.state.final_diagnosis.best_reading}"
            )

    def _quality(self, final: Arm) -> QualityOutcome | None:
        """Quality of a configuration against the baseline on the same tokens."""
        if final.configuration == self.state.baseline_configuration:
            return None
        self.progress.begin("quality of the final configuration against the baseline", 20.0)
        try:
            return qualify.quality(self, self._arm(confirming.BASELINE), final)
        finally:
            self.progress.end()

    def _saturate(self) -> None:
        """The output rate of both arms with all slots busy: what the machine's price buys."""
        confirmation = self.state.confirmation
        assert confirmation is not None
        arms = {confirming.BASELINE: confirmation.arms[0], confirming.FINAL: confirmation.final}
        for name, arm in arms.items():
            users = min(_MOST_SATURATING_USERS, max(4, 2 * int(arm.configuration.get("slots", 8))))
            schedule = self.trials.busy_schedule("saturate", users)
            run = self.trials.run(arm, schedule, stage="saturate", number=0)
            self.state.saturated[name] = _value(run, "output_tokens_per_second")

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _arm(self, name: str) -> Arm:
        return Arm(name, self.state.baseline_configuration)


def optimize(spec: Spec, folder: str | Path, *, resume: bool = False, progress: Progress) -> Result:
    """Take a spec from its goals to a verdict; everything measured lies in ``folder``.

    Raises WrongInput, EnvironmentProblem or InvalidRun; on an interrupt it returns the partial result, marked so.
    """
    work = Optimization(spec, Path(folder), resume=resume, progress=progress)
    work.check()
    return work.run()


def _value(run: Run, name: str) -> float | None:
    reading = run.metric(name)
    return None if reading is None else reading.value


def _told(one: Screened) -> str:
    name = one.candidate.card.name
    if one.failed is not None:
        return f"{name}: failed – {one.failed}"
    if one.noop is not None:
        return f"{name}: not measured – {one.noop}"
    assert one.decision is not None
    return f"{name}: {one.decision.decision} – {one.decision.reason}"
