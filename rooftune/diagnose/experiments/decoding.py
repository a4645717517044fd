"""Experiments on decode steps: twice the batch, twice the context."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rooftune.diagnose.experiments.contract import Bench, Experiment, Outcome, by_ratio
from rooftune.diagnose.facts import Facts
from rooftune.diagnose.step_model import seconds_of
from rooftune.spec import format_quantity
from rooftune.store.run import Run

_INPUT = 16
_OUTPUT = 24
_FEWEST_STEPS = 4


def decode_step_seconds(run: Run, rows: int) -> float | None:
    """Median seconds of steps that only decode, with exactly ``rows`` rows; without a step log the median TPOT."""
    steps = [s for s in run.steps if run.begin_ns <= s["begin_ns"] <= run.end_ns and s["prefill_tokens"] == 0]
    exact = [seconds_of(s) for s in steps if s["decode_rows"] == rows]
    if len(exact) >= _FEWEST_STEPS:
        return float(np.median(exact))
    if steps:
        return None
    gaps = [
        (r.last_token_ns - r.first_token_ns) * 1e-9 / (r.output_tokens - 1)
        for r in run.records
        if r.succeeded and r.output_tokens and r.output_tokens > 1 and r.first_token_ns and r.last_token_ns
    ]
    return float(np.median(gaps)) if gaps else None


def _batch(facts: Facts) -> int:
    typical = max(1, round(facts.decode_rows or facts.running_mean or 1))
    return max(1, min(typical, (facts.slots or 2 * typical) // 2))


def _perform_batch(bench: Bench, run: Run, facts: Facts) -> Outcome:
    rows = _batch(facts)
    return _compare(
        BATCH,
        lambda times: bench.burst(rows * times, _INPUT, _OUTPUT, rows * times),
        rows,
        lambda ratio, one, two: (
            f"a decode step with {2 * rows} sequences takes {ratio:.2f} times as long as with {rows} "
            f"({format_quantity(one, 'time')} -> {format_quantity(two, 'time')})"
        ),
        rows_grow=True,
    )


def _perform_context(bench: Bench, run: Run, facts: Facts) -> Outcome:
    rows = _batch(facts)
    length = max(32, round((facts.decode_context or 128.0) / max(1.0, facts.decode_rows or 1.0)))
    return _compare(
        CONTEXT,
        lambda times: bench.burst(rows, length * times, _OUTPUT, rows),
        rows,
        lambda ratio, one, two: (
            f"a decode step over {2 * length} tokens of context takes {ratio:.2f} times as long as over {length} "
            f"({format_quantity(one, 'time')} -> {format_quantity(two, 'time')})"
        ),
        rows_grow=False,
    )


def _compare(
    experiment: Experiment,
    load: Callable[[int], Run],
    rows: int,
    tell: Callable[[float, float, float], str],
    *,
    rows_grow: bool,
) -> Outcome:
    one = decode_step_seconds(load(1), rows)
    two = decode_step_seconds(load(2), 2 * rows if rows_grow else rows)
    if one is None or two is None or one <= 0:
        return Outcome(
            experiment.name,
            experiment.signature,
            {},
            {},
            "",
            f"too few steps with exactly {rows} sequences to compare",
        )
    ratio = two / one
    if rows_grow:
        reading = by_ratio(
            ratio,
            low=1.3,
            high=1.6,
            if_low={"decode_bandwidth": "for", "launch_overhead": "for", "compute_bound_batch": "against"},
            if_high={
                "decode_bandwidth": "against",
                "launch_overhead": "against",
                "compute_bound_batch": "for",
            },
        )
    else:
        reading = by_ratio(
            ratio,
            low=1.15,
            high=1.4,
            if_low={"decode_bandwidth": "for", "kv_bandwidth": "against"},
            if_high={"decode_bandwidth": "against", "kv_bandwidth": "for"},
        )
    return Outcome(
        experiment.name,
        experiment.signature,
        {"one": one, "two": two, "ratio": ratio},
        reading,
        tell(ratio, one, two),
    )


def _slots_for_two(facts: Facts) -> str | None:
    return "only one slot: a step cannot serve two" if facts.slots == 1 else None


BATCH = Experiment(
    name="batch_x2",
    title="twice the sequences in a decode step, same short context",
    separates=("decode_bandwidth", "launch_overhead", "compute_bound_batch"),
    signature={
        "decode_bandwidth": "step time at most x1.3: the weights are read once for all",
        "launch_overhead": "step time at most x1.3: the host's work is the same",
        "compute_bound_batch": "step time at least x1.6: arithmetic doubles",
    },
    possible=_slots_for_two,
    perform=_perform_batch,
)

CONTEXT = Experiment(
    name="context_x2",
    title="twice the context in a decode step, same batch",
    separates=("kv_bandwidth", "decode_bandwidth"),
    signature={
        "kv_bandwidth": "step time at least x1.4: twice the KV is read",
        "decode_bandwidth": "step time at most x1.15: weights are the same",
    },
    possible=lambda facts: None,
    perform=_perform_context,
)
