"""What cards share: when a switch is there, what changes nothing, and simple bounds of an effect."""

from __future__ import annotations

from collections.abc import Callable

from rooftune.spec import Configuration
from rooftune.techniques.card import Applies, PredictedEffect, TechniqueContext

Judge = Callable[[TechniqueContext], Applies]
Predict = Callable[[TechniqueContext], tuple[PredictedEffect, ...]]


def no_change(context: TechniqueContext) -> Configuration:
    """Nothing that a running configuration could set."""
    return {}


def no_prediction(context: TechniqueContext) -> tuple[PredictedEffect, ...]:
    """The card says nothing by itself; where the change is a scheduling one, the simulation does."""
    return ()


def needs_switch(switch: str, judge: Judge | None = None) -> Judge:
    """Applies only where the runtime has the switch; then ``judge`` decides."""

    def applies(context: TechniqueContext) -> Applies:
        if switch not in context.switches:
            return Applies(False, f"this runtime has no switch '{switch}'")
        if judge is not None:
            return judge(context)
        if context.configuration.get(switch) not in (None, False, "none", "off", 0):
            return Applies(False, f"'{switch}' is on already")
        return Applies(True, f"the runtime has '{switch}' and it is off")

    return applies


def advice(reason: str) -> Judge:
    """Never a switch of a running server: advised with this reason, not tried."""

    def applies(context: TechniqueContext) -> Applies:
        return Applies(False, reason)

    return applies


def fact(context: TechniqueContext, name: str) -> float | None:
    """A measured fact, None where it was not measured."""
    return context.facts.get(name)


def setting(context: TechniqueContext, switch: str) -> float | None:
    """A numeric switch: as configured, else as the server resolved it."""
    value = context.configuration.get(switch)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return context.facts.get(switch)


def bytes_bound(context: TechniqueContext, bytes_ratio: float, basis: str) -> tuple[PredictedEffect, ...]:
    """Effect on TPOT of moving ``bytes_ratio`` of the bytes that a decode step moves now.

    Only the part of a step that moves bytes shrinks: that part lies between mbu (all else is not hidden) and 1 (all of
    it is stalled on memory); never faster than the bytes. Nothing is said where mbu was not measured.
    """
    mbu = fact(context, "mbu")
    if mbu is None:
        return ()
    share = min(max(mbu, 0.0), 1.0)
    return (PredictedEffect("tpot_mean", bytes_ratio, 1.0 - 0.5 * share * (1.0 - bytes_ratio), basis),)
