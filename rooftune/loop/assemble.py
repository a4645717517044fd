"""The result from what the loop knows: goals, effects, techniques, cost, side effects, runs. Also of a loop that was cut short."""

from __future__ import annotations

import statistics
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rooftune import __version__
from rooftune.compare.effect import Effect, measure_effect
from rooftune.compare.same_conditions import compare_conditions
from rooftune.compare.side_effects import side_effects_of_runs
from rooftune.compare.verdict import Judgement, goal_outcome, overall
from rooftune.loop.proxies import run_goals, values
from rooftune.loop.readings import latencies, pooled_metric
from rooftune.loop.techniques import technique_outcomes
from rooftune.metrics.registry import METRICS
from rooftune.spec import Configuration, Goal
from rooftune.store.result import Bottleneck, CostOutcome, GoalOutcome, Interval, Result, RunSummary
from rooftune.store.run import Run

if TYPE_CHECKING:
    from rooftune.diagnose.diagnose import Diagnosis
    from rooftune.loop.optimize import Optimization

_EFFECT_METRICS = (
    "ttft_mean",
    "tpot_mean",
    "e2e_mean",
    "output_tokens_per_second",
    "requests_per_second",
    "slo_attainment",
)


def assemble(work: Optimization, partial_reason: str | None) -> Result:
    """Everything in one object. Never raises for what is missing: a missing value is None with its reason."""
    state, spec = work.state, work.spec
    confirmation = state.confirmation
    baseline = (
        confirmation.baseline_runs
        if confirmation and confirmation.baseline_runs
        else _some(state.baseline_run)
    )
    final = confirmation.final_runs if confirmation else []
    defaults = confirmation.defaults_runs if confirmation else []
    final_configuration = (
        confirmation.final.configuration if confirmation and final else state.baseline_configuration
    )
    outcomes, effects = _goals(work, baseline, final, defaults)
    invalid = _invalid(work, baseline, final)
    judgement = _judge(work, outcomes, effects, invalid, bool(final))
    statement = (
        judgement.statement
        if partial_reason is None
        else f"Partial ({partial_reason}): {judgement.statement}"
    )
    table, missing = _table(baseline, final, defaults)
    first = baseline[0] if baseline else None
    return Result(
        verdict=judgement.verdict,
        statement=statement,
        partial=partial_reason is not None,
        partial_reason=partial_reason,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        rooftune_version=__version__,
        spec=spec.model_dump(mode="json"),
        model=dict((first.resolved or {}).get("model") or {}) if first else {},
        environment=first.environment if first else {},
        roofs=state.roofs,
        workload=first.workload if first else {},
        baseline_configuration=dict(state.baseline_configuration),
        final_configuration=dict(final_configuration),
        defaults_configuration=dict(state.defaults_configuration),
        goals=outcomes,
        effects=_ratio_effects(baseline, final),
        table=table,
        missing=missing,
        latency={
            arm: latencies(runs) for arm, runs in (("baseline", baseline), ("final", final), ("defaults", defaults)) if runs
        },
        time_split=_time_split(work, baseline, final),
        bottleneck={
            "baseline": _bottleneck(state.baseline_diagnosis),
            "final": _bottleneck(state.final_diagnosis),
        },
        findings={
            arm: [asdict(finding) for finding in diagnosis.findings]
            for arm, diagnosis in (("baseline", state.baseline_diagnosis), ("final", state.final_diagnosis))
            if diagnosis is not None
        },
        techniques=technique_outcomes(state, partial_reason),
        quality=state.quality,
        cost=_cost(work, baseline, final),
        side_effects=[s.statement for s in side_effects_of_runs(baseline, final, [g.metric for g in spec.goals.bounds])]
        if final and len(baseline) == len(final)
        else [],
        plan={**(state.plan.to_json() if state.plan else {}), "stopped_early": confirmation.stopped_early if confirmation else None,
              "confirm_rounds_done": len(final), "deciding": state.deciding.metric if state.deciding else None,
              "pooled_requests_an_arm": sum(len(run.records) for run in final or baseline)},
        runs=_summaries(work),
        noise=_noise(baseline, state.deciding),
        next_step=_next_step(work, outcomes, judgement, partial_reason),
        report=str(work.folder / "report.html"),
        seconds=work.journal.elapsed(),
        changes=_changes(state.baseline_configuration, final_configuration),
    )  # fmt: skip


def _some(run: Run | None) -> list[Run]:
    return [run] if run is not None else []


def _goals(
    work: Optimization, baseline: list[Run], final: list[Run], defaults: list[Run]
) -> tuple[list[GoalOutcome], dict[str, Effect]]:
    """Each goal before and after on all requests of the arms; its effect on what one run can carry."""
    requests = min((len(run.records) for run in [*baseline, *final]), default=0)
    outcomes: list[GoalOutcome] = []
    effects: dict[str, Effect] = {}
    paired = len(baseline) == len(final)
    for goal in work.spec.goals.bounds:
        carrier = run_goals([goal], requests)[0]
        before = pooled_metric(goal.metric, baseline)
        after = pooled_metric(goal.metric, final)
        outcome, effect = goal_outcome(
            carrier, values(baseline, carrier.metric) if paired else [], values(final, carrier.metric) if paired else [],
            pooled_baseline=before.value, pooled_final=after.value,
        )  # fmt: skip
        outcome.metric, outcome.baseline, outcome.final = goal.metric, before.value, after.value
        outcome.met = None if after.value is None else goal.met(after.value)
        if not final:
            outcome.met = None if before.value is None else goal.met(before.value)
        outcome.defaults = pooled_metric(goal.metric, defaults).value if defaults else None
        reasons = [m.reason for m in (before, after) if m.value is None and m.reason]
        if carrier.metric != goal.metric and effect.rounds:
            reasons.append(
                f"effect read on {carrier.metric}, since one run has too few requests for {goal.metric}"
            )
        outcome.reason = "; ".join(dict.fromkeys(reasons)) or None
        outcomes.append(outcome)
        if effect.rounds:
            effects[goal.metric] = effect
    return outcomes, effects


def _invalid(work: Optimization, baseline: list[Run], final: list[Run]) -> list[str]:
    """Why the comparison must not be used; a single failed round is left out of the effects, most of them are not."""
    if not final or len(baseline) != len(final):
        return []
    broken = [
        reason
        for before, after in zip(baseline, final, strict=True)
        for reason in compare_conditions(before, after, _difference(work)).invalid[:1]
    ]
    return broken if len(broken) * 2 > len(final) else []


def _difference(work: Optimization) -> Configuration:
    final = work.state.confirmation.final.configuration if work.state.confirmation else {}
    return {
        name: value for name, value in final.items() if work.state.baseline_configuration.get(name) != value
    }


def _judge(
    work: Optimization,
    outcomes: list[GoalOutcome],
    effects: dict[str, Effect],
    invalid: list[str],
    confirmed: bool,
) -> Judgement:
    state = work.state
    if not confirmed:
        if state.baseline_run is None:
            return Judgement("inconclusive", "Nothing was measured yet.")
        met = [o for o in outcomes if o.met]
        if len(met) == len(outcomes) and not state.screened:
            return Judgement("no effect", "All goals are met by the baseline; nothing was changed.")
        tried = len(state.screened)
        return Judgement(
            "no effect" if tried else "inconclusive",
            f"{tried} techniques were screened and none promised a worthwhile gain; the baseline stays."
            if tried
            else "No technique was tried.",
        )
    names = [
        one.candidate.card.title for one in state.stack if one.candidate.card.name not in _taken_out(state)
    ]
    return overall(
        work.spec.goals.bounds,
        {outcome.metric: outcome for outcome in outcomes},
        effects,
        quality=state.quality,
        quality_required=bool(work.spec.goals.quality),
        invalid=invalid,
        subject=" + ".join(names) or "the final configuration",
    )


def _taken_out(state: Any) -> list[str]:
    return state.confirmation.taken_out if state.confirmation else []


def _ratio_effects(baseline: list[Run], final: list[Run]) -> dict[str, Interval]:
    """Final over baseline by metric, from the paired rounds."""
    if len(baseline) != len(final) or len(final) < 2:
        return {}
    found = {}
    for name in _EFFECT_METRICS:
        effect = measure_effect(name, values(baseline, name), values(final, name))
        if effect.interval is not None and effect.scale == "ratio":
            found[name] = effect.interval
    return found


def _table(
    baseline: list[Run], final: list[Run], defaults: list[Run]
) -> tuple[dict[str, dict[str, float | None]], dict[str, str]]:
    """Every metric of every arm over all its requests, and why those that are missing are."""
    table: dict[str, dict[str, float | None]] = {}
    missing: dict[str, str] = {}
    for name in METRICS:
        table[name] = {}
        for arm, runs in (("baseline", baseline), ("final", final), ("defaults", defaults)):
            reading = pooled_metric(name, runs)
            table[name][arm] = reading.value
            if reading.value is None and reading.reason and (runs or arm == "baseline"):
                missing.setdefault(f"table.{name}", reading.reason)
    return table, missing


def _time_split(work: Optimization, baseline: list[Run], final: list[Run]) -> dict[str, dict[str, Any]]:
    from rooftune.loop.live import split

    return {arm: split(runs) for arm, runs in (("baseline", baseline), ("final", final)) if runs}


def _bottleneck(diagnosis: Diagnosis | None) -> Bottleneck | None:
    if diagnosis is None:
        return None
    cause = diagnosis.primary or "unknown"
    finding = next((f for f in diagnosis.findings if f.cause == cause), None)
    return Bottleneck(
        cause=cause,
        status=finding.status if finding and cause != "unknown" else "unknown",
        confidence=finding.confidence if finding else None,
        share=finding.share if finding else None,
        # A judge marks what speaks for ("+"), against ("-") and beside ("o") its cause; here all is about one cause.
        evidence=[
            line.removeprefix("+ ").removeprefix("o ")
            for line in finding.evidence
            if not line.startswith("- ")
        ]
        if finding
        else [diagnosis.best_reading],
        next_step=diagnosis.next_step,
    )


def _cost(work: Optimization, baseline: list[Run], final: list[Run]) -> CostOutcome | None:
    price = work.spec.price
    if price is None:
        return None
    per_second = price.per_second

    def at_capacity(arm: str) -> float | None:
        rate = work.state.saturated.get(arm)
        return per_second / rate * 1e6 if rate else None

    def offered(runs: list[Run]) -> float | None:
        return pooled_metric("cost_per_million_output_tokens", runs).value if runs else None

    return CostOutcome(
        currency=price.currency,
        price_per_hour=per_second * 3600.0,
        baseline_per_million_output_tokens=offered(baseline),
        final_per_million_output_tokens=offered(final),
        basis="at the offered load; 'saturated' is with all slots busy",
        baseline_saturated=at_capacity("baseline"),
        final_saturated=at_capacity("final"),
        reason=None if final else "no final configuration was measured",
    )


def _summaries(work: Optimization) -> list[RunSummary]:
    return list(work.trials.summaries)


def _noise(baseline: list[Run], deciding: Goal | None) -> dict[str, Any]:
    """Spread of the baseline between its own rounds: schedules differ too, so this is more than the paired comparison sees."""
    if deciding is None:
        return {}
    known = [value for value in values(baseline, deciding.metric) if value is not None and value > 0]
    if len(known) < 3:
        return {"reason": "fewer than 3 baseline rounds"}
    mean = statistics.fmean(known)
    return {
        "metric": deciding.metric,
        "baseline_spread": statistics.stdev(known) / mean,
        "rounds": len(known),
        "meaning": "standard deviation of the baseline between rounds over its mean; the rounds' schedules differ too",
    }


def _changes(baseline: Configuration, final: Configuration) -> list[str]:
    different = {
        name: (baseline.get(name), value) for name, value in final.items() if baseline.get(name) != value
    }
    if not different:
        return []
    lines = [f"{name}: {before} → {after}" for name, (before, after) in different.items()]
    rollback = ", ".join(f"{name}={before}" for name, (before, _) in different.items())
    return [*lines, f"rollback: {rollback}"]


def _next_step(
    work: Optimization, outcomes: list[GoalOutcome], judgement: Judgement, partial_reason: str | None
) -> str:
    folder = work.folder
    if partial_reason is not None:
        return f"rooftune optimize SPEC --out {folder} --resume goes on from here"
    missed = [outcome.metric for outcome in outcomes if outcome.met is False]
    if judgement.verdict == "improved":
        serve = f"rooftune serve --config {folder}/configuration.yaml"
        if not missed:
            return f"{serve} serves it"
        cause = work.state.final_diagnosis.primary if work.state.final_diagnosis else None
        where = f"; the bottleneck is now {cause}" if cause else ""
        return f"{serve} serves it; still missed: {', '.join(missed)}{where}. A larger budget.time tries more"
    if judgement.verdict == "inconclusive":
        more = f" (about {judgement.more_rounds} more rounds)" if judgement.more_rounds else ""
        return f"raise budget.time{more} and run again with a new --out"
    if not missed:
        return "the goals are met as it is; tighten them, or raise the load, to look for more"
    return "the techniques of this engine do not help at this load: see the diagnosis for what would"
