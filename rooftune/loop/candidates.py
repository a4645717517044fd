"""Which techniques come up for a configuration: the catalogue read with the facts of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooftune.runtimes.contract import Runtime
from rooftune.runtimes.registry import technique_table
from rooftune.select.candidates import Candidate, candidates
from rooftune.spec import Configuration
from rooftune.store.run import Run
from rooftune.techniques.card import TechniqueContext
from rooftune.techniques.facts import facts_from_run

if TYPE_CHECKING:
    from rooftune.loop.optimize import Optimization


def applicable(
    work: Optimization, run: Run, configuration: Configuration, cause: str | None
) -> list[Candidate]:
    """Techniques to try on top of ``configuration``, best first; every card's latest reading is kept in the state.

    Facts, cause and predictions come from ``run``, which was measured with that configuration.
    """
    context = TechniqueContext(
        configuration=configuration,
        facts=facts_from_run(run),
        cause=cause,
        switches=frozenset(work.runtime.switches()),
    )
    found = candidates(
        context,
        technique_table(work.runtime.name),
        baseline_run=run,
        schedule=work.trials.schedule_of(run),
        # A share of 0 has no ratio to predict; the order then rests on the first token's time.
        deciding=[*(goal.metric for goal in work.spec.goals.bounds), "ttft_mean"],
    )
    for candidate in found:
        if candidate.card.name not in work.state.screened:
            work.state.considered[candidate.card.name] = candidate
    return [candidate for candidate in found if candidate.applies.yes]


def switchable(runtime: Runtime) -> list[str]:
    """Techniques that the runtime has a switch for, by name."""
    return sorted(name for name, mapping in technique_table(runtime.name).items() if mapping.reason is None)
