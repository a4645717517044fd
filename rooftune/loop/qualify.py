"""Quality of one configuration against the baseline: the same tokens through both."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rooftune.errors import EnvironmentProblem
from rooftune.quality.evaluate import compare_local, weight_path
from rooftune.quality.over_http import compare_generated, generate
from rooftune.store.result import QualityOutcome

if TYPE_CHECKING:
    from rooftune.loop.optimize import Optimization
    from rooftune.loop.trials import Arm

_TOKENS_PER_DOCUMENT = 96
"""Of each document that ships: bounds the time to tens of seconds, and the interval by document stays honest."""
_ANSWER_TOKENS = 16
_ANSWERS_AT_ONCE = 4


def quality(work: Optimization, baseline: Arm, final: Arm) -> QualityOutcome:
    """Divergence of the final configuration from the baseline, against the goals' margins.

    Two measurements. Likelihood: the model's own path through both weight kernels, on the text that ships. End to end: greedy
    answers of both *servers* to the same prompts, several at once, since scheduling must not change answers either and that
    is measured, not assumed. Where one cannot be measured the outcome says why; a lossy technique is then not accepted.
    """
    outcome = _likelihood(work, baseline, final)
    agreement = work.journal.once(
        f"quality/servers/{final.name}", lambda: _through_servers(work, baseline, final)
    )
    # Its first clause is the count of identical answers; the rest is detail.
    outcome.statement = f"{outcome.statement}; {agreement['statement'].partition(',')[0]}"
    outcome.detail = f"{outcome.detail}; {agreement['statement'].rstrip('.')}"
    target = next((goal.target for goal in work.spec.goals.quality if goal.metric == "top1_agreement"), None)
    if agreement["high"] is not None and target is not None and agreement["high"] < target:
        outcome.passed = False
    return outcome


def _likelihood(work: Optimization, baseline: Arm, final: Arm) -> QualityOutcome:
    """By what is computed, not by the arm's name: arms that differ in scheduling only share one measurement."""

    def measure() -> dict[str, Any]:
        threads = int(baseline.configuration.get("threads", 2))
        try:
            comparison = compare_local(
                work.spec.model, baseline.configuration, final.configuration, work.progress,
                threads=threads, tokens_per_document=_TOKENS_PER_DOCUMENT,
            )  # fmt: skip
        except EnvironmentProblem as problem:
            return asdict(_unmeasured(str(problem)))
        return asdict(comparison.outcome(work.spec.goals.quality))

    paths = f"{weight_path(baseline.configuration)}-{weight_path(final.configuration)}"
    return QualityOutcome(**work.journal.once(f"quality/{paths}", measure))


def _through_servers(work: Optimization, baseline: Arm, final: Arm) -> dict[str, Any]:
    """Agreement of the servers' greedy answers: share of equal tokens while the contexts are equal."""
    try:
        answers = []
        for arm in (baseline, final):
            server = work.fleet.server(arm.configuration)
            answers.append(
                generate(
                    server.url, server.model, maximum_tokens=_ANSWER_TOKENS, concurrency=_ANSWERS_AT_ONCE
                )
            )
        found = compare_generated(answers[0], answers[1])
    except EnvironmentProblem as problem:
        return {
            "statement": f"the servers' answers could not be compared: {problem}",
            "value": None,
            "high": None,
        }
    return {"statement": found.statement, "value": found.agreement.value, "high": found.agreement.high}


def _unmeasured(reason: str) -> QualityOutcome:
    return QualityOutcome(
        kl_mean=None, kl_high=None, kl_p99=None, top1_agreement=None, top1_low=None, tokens=0, floor_kl=None, passed=None,
        statement="quality was not measured", reason=reason,
    )  # fmt: skip
