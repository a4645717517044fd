"""`rooftune optimize --plan`: what would be done, restarted and spent. It starts nothing."""

from __future__ import annotations

from typing import Any

from rooftune.loop.candidates import switchable
from rooftune.loop.plan import CONFIRM_ROUNDS, CONFIRM_STARTS, SCREEN_ROUNDS, requests_for_goals
from rooftune.runtimes.registry import runtime_for
from rooftune.spec import Spec


def preview(spec: Spec) -> dict[str, Any]:
    """The plan as far as it can be known without measuring. Raises WrongInput for a configuration that cannot be."""
    runtime = runtime_for(spec)
    baseline = {**runtime.defaults(), **spec.baseline.techniques}
    runtime.check(baseline)
    techniques = switchable(runtime)
    restarts = "restart" in spec.permissions
    arrivals = spec.workload.arrivals
    price = spec.price
    return {
        "model": spec.model,
        "runtime": spec.runtime.name,
        "baseline": baseline,
        "goals": [str(goal) for goal in [*spec.goals.bounds, *spec.goals.quality]],
        "load": "found by a pilot on the baseline (rate: auto)"
        if arrivals.rate == "auto"
        else arrivals.model_dump(mode="json"),
        "requests_needed_an_arm": requests_for_goals(spec),
        "screen": {"rounds": SCREEN_ROUNDS, "techniques_at_most": techniques},
        "confirm": {"rounds": CONFIRM_ROUNDS, "starts_an_arm": CONFIRM_STARTS},
        "restarts": {
            "allowed": restarts,
            "what": "server processes of Rooftune's own, on loopback; nothing that is already running is touched"
            if spec.runtime.name == "embedded"
            else "none: a server that Rooftune did not start is only loaded",
            "at_most": 2 + len(techniques) + 5 * CONFIRM_STARTS if restarts else 0,
        },
        "budget_seconds": spec.budget.time,
        "money": None
        if price is None
        else {"amount": round(price.per_second * spec.budget.time, 6), "currency": price.currency},
        "does": "nothing: this is the plan only",
    }


def preview_lines(plan: dict[str, Any]) -> list[str]:
    """The plan in words."""
    money = plan["money"]
    spent = f", {money['amount']:.4g} {money['currency']} at the stated price" if money else ""
    restarts = plan["restarts"]
    return [
        f"Plan for {plan['model']} on the {plan['runtime']} runtime (nothing is done now)",
        f"  goals      {'; '.join(plan['goals']) or 'none'}",
        f"  load       {plan['load']}",
        f"  baseline   {', '.join(f'{name}={value}' for name, value in plan['baseline'].items())}",
        "  1. roofs of this machine, baseline, diagnosis with experiments",
        f"  2. screen, {plan['screen']['rounds']} short rounds each, those that apply of: {', '.join(plan['screen']['techniques_at_most'])}",
        f"  3. confirm the stack against the baseline: {plan['confirm']['rounds']} rounds over {plan['confirm']['starts_an_arm']} starts of each arm, "
        f"{plan['requests_needed_an_arm']} requests an arm or more, each technique left out once",
        "  4. quality, cost, verdict, report",
        f"  restarts   at most {restarts['at_most']} starts of {restarts['what']}"
        if restarts["allowed"]
        else f"  restarts   {restarts['what']}",
        f"  spends     about {plan['budget_seconds'] / 60:.0f} min{spent}",
    ]
