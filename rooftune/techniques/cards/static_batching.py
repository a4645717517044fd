"""Static batching: a batch starts when the one before it is done."""

from __future__ import annotations

from rooftune.spec import Configuration
from rooftune.techniques.card import Applies, Card, TechniqueContext
from rooftune.techniques.parts import fact, needs_switch, no_prediction, setting
from rooftune.techniques.problems import questions

_SHARE = 0.05
"""Waiting for more requests matters from this share of the mean TTFT on."""


def _judge(context: TechniqueContext) -> Applies:
    batching = context.configuration.get("batching")
    if batching == "static":
        return Applies(False, "batching is static already")
    if batching != "dynamic":
        return Applies(
            False,
            "requests join and leave at every step now; a static batch would make all wait for the longest",
        )
    wait, ttft = setting(context, "batch_wait"), fact(context, "ttft_mean")
    if wait is None or ttft is None:
        return Applies(False, "how long batches wait for more requests was not measured")
    if wait < _SHARE * ttft and context.cause != "batch_wait":
        return Applies(
            False, f"batches wait at most {wait:.3g} s for more, little of a mean TTFT of {ttft:.3g} s"
        )
    return Applies(True, f"batches wait up to {wait:.3g} s for more requests, of a mean TTFT of {ttft:.3g} s")


def _change(context: TechniqueContext) -> Configuration:
    return {"batching": "static"}


CARD = Card(
    name="static_batching",
    title="Static batching",
    family="batching",
    problem=5,
    summary="Requests that wait are answered together as one batch; the next batch starts when all of it are done. Simple, and right for offline work of equal lengths.",
    questions=questions(5),
    lossless=True,
    can_worsen=(
        "waiting: a short answer waits for the longest of its batch",
        "use of slots: rows of finished answers stay empty",
    ),
    evidence_of_active="batches formed and idle rows, by counter; no request joins while others run",
    source="the method, problem 5",
    answers=("batch_wait",),
    applies=needs_switch("batching", _judge),
    change=_change,
    predict=no_prediction,
    in_engine=True,
)
