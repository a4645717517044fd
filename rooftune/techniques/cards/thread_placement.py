"""Thread placement: how many threads compute, and where."""

from __future__ import annotations

from rooftune.spec import Configuration
from rooftune.techniques.card import Applies, Card, Knob, PredictedEffect, TechniqueContext
from rooftune.techniques.parts import fact, needs_switch, setting
from rooftune.techniques.problems import questions


def _judge(context: TechniqueContext) -> Applies:
    threads, cores = setting(context, "threads"), fact(context, "cores")
    if threads is None or cores is None:
        return Applies(False, "the number of threads or of the machine's processors is not told")
    if threads != cores:
        return Applies(True, f"{threads:.0f} threads compute on {cores:.0f} hardware threads")
    if cores < 2:
        return Applies(False, "one thread computes on one hardware thread already")
    return Applies(
        True,
        f"all {cores:.0f} hardware threads compute, so the server's own work has none; it may pay to leave it one",
    )


def _change(context: TechniqueContext) -> Configuration:
    threads, cores = setting(context, "threads"), fact(context, "cores")
    if not cores:
        return {}
    return {"threads": int(cores) - 1 if threads == cores else int(cores)}


def _predict(context: TechniqueContext) -> tuple[PredictedEffect, ...]:
    """At best in proportion to the threads (never more than the machine has); at worst memory binds before."""
    threads, cores = setting(context, "threads"), fact(context, "cores")
    if not threads or not cores:
        return ()
    if threads == cores:
        most = 1.1 * cores / (cores - 1)
        return (
            PredictedEffect(
                "tpot_mean", 0.9, most, f"{cores:.0f} to {cores - 1:.0f} threads, one left to the server"
            ),
        )
    if threads < cores:
        return (PredictedEffect("tpot_mean", threads / cores, 1.1, f"{threads:.0f} to {cores:.0f} threads"),)
    return (
        PredictedEffect(
            "tpot_mean",
            0.3,
            1.0,
            f"{threads:.0f} threads shared {cores:.0f} processors and waited for each other",
        ),
    )


CARD = Card(
    name="thread_placement",
    title="Threads and their placement",
    family="kernels",
    problem=9,
    summary="As many computing threads as hardware threads, or one fewer where the server itself needs a core. Too few leave bandwidth and arithmetic idle; too many wait for each other at every operator.",
    questions=questions(9),
    lossless=True,
    can_worsen=(
        "the server's own thread and other processes, which lose their core",
        "bandwidth-bound steps, which saturate below all threads",
    ),
    evidence_of_active="threads that compute, as the server tells them",
    source="the method, problem 9",
    answers=("threads", "kernel_path", "prefill_compute", "decode_bandwidth"),
    applies=needs_switch("threads", _judge),
    change=_change,
    predict=_predict,
    knobs=(Knob("threads", (2, 1, 4)),),
    in_engine=True,
    notes=("Only the number is a switch here; pinning to cores and NUMA nodes is not yet.",),
)
