"""Experiments on the time to first token: alone on the server, twice the prompt, twice the slots."""

from __future__ import annotations

import numpy as np

from rooftune.diagnose.experiments.contract import Bench, Experiment, Outcome, by_ratio
from rooftune.diagnose.facts import Facts
from rooftune.spec import format_quantity
from rooftune.store.run import Run

_ALONE = 4
_SHORTEST, _LONGEST = 32, 1024


def _ttfts(run: Run) -> list[float]:
    return [
        (r.first_token_ns - r.scheduled_ns) * 1e-9 for r in run.records if r.succeeded and r.first_token_ns
    ]


def _e2es(run: Run) -> dict[int, float]:
    return {
        r.index: (r.last_token_ns - r.scheduled_ns) * 1e-9
        for r in run.records
        if r.succeeded and r.last_token_ns
    }


def _lengths(run: Run, facts: Facts) -> tuple[int, int]:
    """Mean tokens of a prompt that had to be computed (fresh prompts hit no cache), and of an answer."""
    outputs = [r.output_tokens for r in run.records if r.output_tokens]
    prompt = max(8, round(facts.prompt_tokens)) if facts.prompt_tokens else 64
    return prompt, round(float(np.mean(outputs))) if outputs else 16


def _perform_low_load(bench: Bench, run: Run, facts: Facts) -> Outcome:
    prompt, output = _lengths(run, facts)
    alone = _ttfts(bench.burst(_ALONE, prompt, min(output, 8), 1))
    if not alone or not facts.ttft:
        return Outcome(LOW_LOAD.name, LOW_LOAD.signature, {}, {}, "", "no request was answered")
    # The best of a few: what a neighbour adds is not the service.
    lowest = float(np.median(alone))
    ratio = lowest / facts.ttft
    reading = by_ratio(
        ratio,
        low=0.5,
        high=0.75,
        if_low={"queue_slots": "for", "overload": "for", "prefill_compute": "against"},
        if_high={"queue_slots": "against", "overload": "against", "prefill_compute": "for"},
    )
    return Outcome(
        LOW_LOAD.name,
        LOW_LOAD.signature,
        {"alone": lowest, "under_load": facts.ttft, "ratio": ratio},
        reading,
        f"alone, the first token takes {format_quantity(lowest, 'time')}; under load {format_quantity(facts.ttft, 'time')} on average "
        f"({ratio:.0%} of it is service)",
    )


def _perform_prefill(bench: Bench, run: Run, facts: Facts) -> Outcome:
    prompt, _ = _lengths(run, facts)
    length = _probe_length(prompt, run)
    one, two = _ttfts(bench.burst(_ALONE, length, 2, 1)), _ttfts(bench.burst(_ALONE, 2 * length, 2, 1))
    if not one or not two:
        return Outcome(PREFILL.name, PREFILL.signature, {}, {}, "", "no request was answered")
    first, second = float(np.median(one)), float(np.median(two))
    ratio = second / first
    reading = by_ratio(
        ratio,
        low=1.3,
        high=1.6,
        if_low={"prefill_compute": "against", "launch_overhead": "for"},
        if_high={"prefill_compute": "for"},
    )
    return Outcome(
        PREFILL.name,
        PREFILL.signature,
        {"one": first, "two": second, "ratio": ratio},
        reading,
        f"a prompt of {2 * length} tokens takes {ratio:.2f} times as long as one of {length} "
        f"({format_quantity(first, 'time')} -> {format_quantity(second, 'time')})",
    )


def _probe_length(prompt: int, run: Run) -> int:
    """Both lengths within one step's token budget: else the number of steps doubles, whatever a step is made of."""
    from rooftune.diagnose.facts import find

    budget = find(run.resolved or {}, "token_budget", "max_num_batched_tokens")
    longest = find(run.resolved or {}, "longest_sequence", "max_model_len")
    limit = min(
        _LONGEST,
        (int(budget) if budget else 2 * _LONGEST) // 2,
        (int(longest) - 8) // 2 if longest else _LONGEST,
    )
    return max(min(_SHORTEST, limit), min(prompt, limit))


def _perform_slots(bench: Bench, run: Run, facts: Facts) -> Outcome:
    slots = 2 * (facts.slots or 1)
    with bench.restarted({"slots": slots}) as other:
        again = other.replay()
    if again is None:
        return Outcome(SLOTS.name, SLOTS.signature, {}, {}, "", "the run's schedule is not at hand")
    before, after = _e2es(run), _e2es(again)
    both = sorted(before.keys() & after.keys())
    if len(both) < 8:
        return Outcome(SLOTS.name, SLOTS.signature, {}, {}, "", "too few requests were answered in both runs")
    old, new = float(np.mean([before[i] for i in both])), float(np.mean([after[i] for i in both]))
    ratio = new / old
    reading = by_ratio(
        ratio,
        low=0.8,
        high=0.92,
        if_low={"queue_slots": "for", "overload": "against", "kv_capacity": "against"},
        if_high={"queue_slots": "against", "overload": "for"},
    )
    return Outcome(
        SLOTS.name,
        SLOTS.signature,
        {"before": old, "after": new, "ratio": ratio},
        reading,
        f"with {slots} slots instead of {facts.slots} the same {len(both)} requests take {ratio:.2f} times as long end to end",
    )


LOW_LOAD = Experiment(
    name="low_load",
    title="the same requests one at a time",
    separates=("queue_slots", "overload", "prefill_compute"),
    signature={
        "queue_slots": "time to first token at most half of that under load",
        "overload": "time to first token at most half of that under load",
        "prefill_compute": "time to first token at least three quarters of that under load: it is service",
    },
    possible=lambda facts: None,
    perform=_perform_low_load,
)

PREFILL = Experiment(
    name="prefill_x2",
    title="twice the prompt, one request at a time, no decoding",
    separates=("prefill_compute", "launch_overhead"),
    signature={
        "prefill_compute": "time to first token at least x1.6: arithmetic grows with the tokens",
        "launch_overhead": "time to first token at most x1.3: a step costs the same however much it computes",
    },
    possible=lambda facts: None,
    perform=_perform_prefill,
)

SLOTS = Experiment(
    name="slots_x2",
    title="the same load on twice the slots",
    separates=("queue_slots", "overload"),
    signature={
        "queue_slots": "end-to-end time at most x0.8: more are served at once at little cost",
        "overload": "end-to-end time at least x0.92: the machine is full, only the queue moves",
    },
    possible=lambda facts: None if facts.slots else "the slot limit is not known",
    perform=_perform_slots,
    needs=frozenset({"load", "restart"}),
)
