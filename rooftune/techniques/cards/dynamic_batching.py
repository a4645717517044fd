"""Dynamic batching: a batch waits a bounded time for more requests."""

from __future__ import annotations

from rooftune.spec import Configuration
from rooftune.techniques.card import Applies, Card, Knob, TechniqueContext
from rooftune.techniques.parts import fact, needs_switch, no_prediction
from rooftune.techniques.problems import questions

_WAITS = (0.02, 0.05, 0.1)


def _judge(context: TechniqueContext) -> Applies:
    batching = context.configuration.get("batching")
    if batching == "dynamic":
        return Applies(False, "batching is dynamic already")
    if batching != "static":
        return Applies(
            False,
            "requests join at every step now; a batch that is collected first would only make them wait",
        )
    running, slots = fact(context, "running_mean"), fact(context, "slots")
    if running is None or slots is None:
        return Applies(False, "how full the batches are was not measured")
    if running > 0.8 * slots:
        return Applies(False, f"batches are full already: {running:.1f} of {slots:.0f} slots run on average")
    return Applies(True, f"batches start with {running:.1f} of {slots:.0f} slots on average")


def _change(context: TechniqueContext) -> Configuration:
    return {"batching": "dynamic", "batch_wait": _WAITS[0]}


CARD = Card(
    name="dynamic_batching",
    title="Dynamic batching",
    family="batching",
    problem=5,
    summary="Collects requests until the batch is full or a wait is over, then answers them together. Fuller batches than static ones, at the price of the wait.",
    questions=questions(5),
    lossless=True,
    can_worsen=("TTFT at low load, by the wait", "short answers, which wait for the longest of their batch"),
    evidence_of_active="batches formed and their sizes, by counter",
    source="the method, problem 5",
    answers=("decode_bandwidth",),
    applies=needs_switch("batching", _judge),
    change=_change,
    predict=no_prediction,
    knobs=(Knob("batch_wait", _WAITS),),
    in_engine=True,
)
