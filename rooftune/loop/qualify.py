"""Quality of one configuration against the baseline: the same tokens through both."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rooftune.errors import EnvironmentProblem
from rooftune.quality.evaluate import compare_local, weight_path
from rooftune.store.result import QualityOutcome

if TYPE_CHECKING:
    from rooftune.loop.optimize import Optimization
    from rooftune.loop.trials import Arm


def quality(work: Optimization, baseline: Arm, final: Arm) -> QualityOutcome:
    """Divergence of the final configuration's model from the baseline's on the text that ships, against the goals' margins.

    Where it cannot be measured the outcome has no values and says why; a lossy technique is then not accepted.
    """

    def measure() -> dict[str, Any]:
        threads = int(baseline.configuration.get("threads", 2))
        try:
            comparison = compare_local(
                work.spec.model, baseline.configuration, final.configuration, work.progress, threads=threads
            )
        except EnvironmentProblem as problem:
            return asdict(_unmeasured(str(problem)))
        return asdict(comparison.outcome(work.spec.goals.quality))

    # By what is computed, not by the arm's name: arms that differ in scheduling only share one measurement.
    paths = f"{weight_path(baseline.configuration)}-{weight_path(final.configuration)}"
    return QualityOutcome(**work.journal.once(f"quality/{paths}", measure))


def _unmeasured(reason: str) -> QualityOutcome:
    return QualityOutcome(
        kl_mean=None, kl_high=None, kl_p99=None, top1_agreement=None, top1_low=None, tokens=0, floor_kl=None, passed=None,
        statement="quality was not measured", reason=reason,
    )  # fmt: skip
