"""Validity gates: each a value against its limit. A run that fails one still shows its best reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rooftune.measure.client.load import LoadResult
from rooftune.metrics.percentile import minimum_sample
from rooftune.metrics.samples import offered
from rooftune.store.records import RequestRecord
from rooftune.store.run import Gate, Series
from rooftune.workload.schedule import Schedule

SEND_LAG_LIMIT = 0.010
SEND_LAG_SHARE = 0.10
"""The client may be late by 10 ms, or by a tenth of the median time to first token where that is more."""
RATE_LIMIT = 0.90
ERROR_LIMIT = 0.01
STEAL_LIMIT = 0.05
OTHERS_LIMIT = 0.10
CLIENT_CPU_LIMIT = 0.70
STALL_LIMIT = 0.25
LENGTH_LIMIT = 0.99
LITTLE_LIMIT = 0.20
LITTLE_LIMIT_OF_STEPS = 0.50
CACHE_MARGIN = 0.03
TEMPLATE_TOKENS = 48.0
"""Tokens that a chat template may put before a conversation without a system message (its default one)."""
_FEWEST_FOR_RATE = 20


@dataclass(frozen=True, slots=True)
class GateInput:
    """``percentiles``: those that goals ask for, e.g. ("p95",). ``counters``: rises during the run."""

    schedule: Schedule
    load: LoadResult
    percentiles: Sequence[str]
    steal: float | None
    counters: dict[str, float]
    series: Sequence[Series]
    ignore_eos: bool = True
    others: float | None = None
    """Share of all processors' time that neither client nor server used."""


def judge(given: GateInput) -> tuple[Gate, ...]:
    """All gates, each with its reason in words."""
    return (
        _send_lag(given),
        _rate_sent(given),
        _rate_achieved(given),
        _errors(given),
        _samples(given),
        _output_lengths(given),
        _token_counts(given),
        _little(given),
        _client_cpu(given),
        _client_stall(given),
        _steal(given),
        _others(given),
        _prefix_cache(given),
    )


def _seconds(values: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(values, dtype=np.float64)


def _send_lag(given: GateInput) -> Gate:
    records = given.load.records
    lags = [(r.sent_ns - r.scheduled_ns) / 1e9 for r in records if r.sent_ns is not None]
    if not lags:
        return Gate("send_lag_p99", None, None, SEND_LAG_LIMIT, "nothing was sent")
    firsts = [(r.first_token_ns - r.scheduled_ns) / 1e9 for r in records if r.first_token_ns is not None]
    limit = max(SEND_LAG_LIMIT, SEND_LAG_SHARE * float(np.median(firsts))) if firsts else SEND_LAG_LIMIT
    value = float(np.quantile(_seconds(lags), 0.99))
    ok = value <= limit
    reason = (
        "the client sent on time"
        if ok
        else f"the client sent up to {value * 1e3:.0f} ms late: use a less busy machine or a lower rate"
    )
    return Gate("send_lag_p99", ok, value, limit, reason)


def _rate_sent(given: GateInput) -> Gate:
    """How fast requests left, against how fast they were due."""
    if given.schedule.closed_loop:
        return Gate("rate_sent", None, None, RATE_LIMIT, "closed loop: the answers set the pace")
    sent = sorted(r.sent_ns for r in given.load.records if r.sent_ns is not None)
    due = [r.scheduled_ns for r in given.load.records if r.sent_ns is not None]
    if len(sent) < 2 or due[-1] <= due[0]:
        return Gate("rate_sent", None, None, RATE_LIMIT, "too few requests to have a rate")
    value = (due[-1] - due[0]) / max(1, sent[-1] - sent[0])
    ok = value >= RATE_LIMIT
    reason = (
        "requests left at the asked rate"
        if ok
        else f"the client reached {value:.0%} of the asked rate; the numbers are of the client, not of the server"
    )
    return Gate("rate_sent", ok, value, RATE_LIMIT, reason)


def _rate_achieved(given: GateInput) -> Gate:
    """Answers per request offered, with the window moved by the time an early request takes.

    While the server keeps up, as many answers end between e and T + e as requests are due between 0 and T, where e
    is the median time of the first third. A queue that grows moves the later answers out of that window.
    """
    name = "rate_achieved"
    if given.schedule.closed_loop:
        return Gate(name, None, None, RATE_LIMIT, "closed loop: the answers set the pace")
    records = sorted(offered(given.load.records), key=lambda r: r.scheduled_ns)
    if len(records) < _FEWEST_FOR_RATE:
        return Gate(name, None, None, RATE_LIMIT, f"fewer than {_FEWEST_FOR_RATE} requests: cannot be judged")
    early = [(r.end_ns - r.scheduled_ns) for r in records[: len(records) // 3] if r.end_ns is not None]
    if not early:
        return Gate(name, None, None, RATE_LIMIT, "no early request ended")
    # Half again of the usual time is allowed, so that a few slow last answers do not look like a growing queue.
    until = records[-1].scheduled_ns + 1.5 * float(np.median(early))
    done = sum(r.end_ns is not None and r.end_ns <= until for r in records)
    value = done / len(records)
    ok = value >= RATE_LIMIT
    rate = given.schedule.rate or 0.0
    reason = (
        "the server kept up with the asked rate"
        if ok
        else f"the server answered about {value * rate:.3g} of {rate:.3g} requests/s: its queue grows, so latency "
        "depends on how long the run is; lower the rate"
    )
    return Gate(name, ok, value, RATE_LIMIT, reason)


def _errors(given: GateInput) -> Gate:
    records = offered(given.load.records)
    if not records:
        return Gate("errors", None, None, ERROR_LIMIT, "no request was due")
    failed = [r for r in records if not r.succeeded]
    value = len(failed) / len(records)
    if value <= ERROR_LIMIT:
        return Gate("errors", True, value, ERROR_LIMIT, f"{len(failed)} of {len(records)} requests failed")
    kinds: dict[str, list[RequestRecord]] = {}
    for record in failed:
        kinds.setdefault(record.error or "unfinished", []).append(record)
    told = ", ".join(
        f"{len(found)} {kind}" for kind, found in sorted(kinds.items(), key=lambda k: -len(k[1]))
    )
    commonest = max(kinds.values(), key=len)[0].error_detail
    detail = f" ({commonest})" if commonest else ""
    return Gate(
        "errors", False, value, ERROR_LIMIT, f"{len(failed)} of {len(records)} failed: {told}{detail}"
    )


def _samples(given: GateInput) -> Gate:
    n = len(offered(given.load.records))
    asked = [p for p in given.percentiles if p.startswith("p") and p[1:].isdigit()]
    if not asked:
        return Gate("samples", True, float(n), None, "no goal asks for a percentile")
    needed = max(minimum_sample(int(p[1:]) / 100) for p in asked)
    worst = max(asked, key=lambda p: int(p[1:]))
    if n >= needed:
        return Gate("samples", True, float(n), float(needed), f"enough requests for {worst}")
    reason = f"{worst} needs at least {needed} requests, this run has {n}: use --requests {needed}"
    return Gate("samples", False, float(n), float(needed), reason)


def _output_lengths(given: GateInput) -> Gate:
    asked = [r for r in given.load.records if r.asked_output_tokens is not None and r.succeeded]
    if not asked:
        return Gate("output_lengths", None, None, LENGTH_LIMIT, "no fixed output length was asked")
    told = [r for r in asked if r.output_tokens_source in ("usage", "tokenizer")]
    if not told:
        return Gate("output_lengths", None, None, LENGTH_LIMIT, "the server does not tell its token counts")
    value = sum(r.output_tokens == r.asked_output_tokens for r in told) / len(told)
    ok = value >= LENGTH_LIMIT
    why = (
        "does not honour ignore_eos" if given.ignore_eos else "cannot be told to ignore the end of the answer"
    )
    reason = (
        "answers have the asked length"
        if ok
        else f"{1 - value:.0%} of the answers have another length than asked: the server {why}; "
        "leave --output-tokens out, or compare per-token metrics only"
    )
    return Gate("output_lengths", ok, value, LENGTH_LIMIT, reason)


def _token_counts(given: GateInput) -> Gate:
    """Never fails a run: throughput then rests on a lower bound, and says so."""
    good = [r for r in given.load.records if r.succeeded]
    if not good:
        return Gate("token_counts", None, None, 1.0, "no request was answered")
    value = sum(r.output_tokens_source in ("usage", "tokenizer") for r in good) / len(good)
    if value == 1.0:
        return Gate("token_counts", True, value, 1.0, "token counts are the server's own")
    reason = "the server sent no usage: output tokens are counted as chunks, which is a lower bound"
    return Gate("token_counts", None, value, 1.0, reason)


def _little(given: GateInput) -> Gate:
    """Little's law, L = λW: the server's own requests in the system against the client's rate × time."""
    name = "littles_law"
    load = given.load
    gauges = {
        s.name: _inside(s, load) for s in given.series if s.name in ("open_requests", "running", "waiting")
    }
    open_requests = gauges.get("open_requests")
    # Where only running and waiting are told they are those of the last step's end, which misses who came since.
    limit = LITTLE_LIMIT if open_requests else LITTLE_LIMIT_OF_STEPS
    samples = open_requests or gauges.get("running") or []
    if len(samples) < 10:
        return Gate(name, None, None, limit, "the server told its requests in the system fewer than 10 times")
    window = max(1, load.end_ns - load.begin_ns)
    spent = sum(r.end_ns - r.sent_ns for r in load.records if r.end_ns is not None and r.sent_ns is not None)
    ours = spent / window
    waiting = gauges.get("waiting")
    theirs = float(np.mean(samples))
    if not open_requests and waiting:
        theirs += float(np.mean(waiting))
    # Twice-a-second samples of a small number scatter: half a request is within the method's own error.
    scatter = 2.0 * float(np.std(samples)) / len(samples) ** 0.5
    value = max(0.0, abs(ours - theirs) - max(0.5, scatter)) / max(ours, 1e-9)
    ok = value <= limit
    reason = (
        f"client {ours:.2f} and server {theirs:.2f} requests in the system agree"
        if ok
        else f"client counts {ours:.2f} requests in the system, the server {theirs:.2f}: something between holds them, "
        "or others load the server"
    )
    return Gate(name, ok, value, limit, reason)


def _inside(series: Series, load: LoadResult) -> list[float]:
    """Values sampled while the load ran."""
    pairs = zip(series.times_ns, series.values, strict=True)
    return [value for time, value in pairs if load.begin_ns <= time <= load.end_ns]


def _client_cpu(given: GateInput) -> Gate:
    value = given.load.cpu_share
    ok = value <= CLIENT_CPU_LIMIT
    reason = (
        "the client has processor time to spare"
        if ok
        else f"the client used {value:.0%} of a core, its times may be its own: lower the rate or output length"
    )
    return Gate("client_cpu", ok, value, CLIENT_CPU_LIMIT, reason)


def _client_stall(given: GateInput) -> Gate:
    value = given.load.stall
    ok = value <= STALL_LIMIT
    reason = (
        "the client was never held up for long"
        if ok
        else f"the client itself stood still for {value:.2f} s (stopped, or no processor time); measure again"
    )
    return Gate("client_stall", ok, value, STALL_LIMIT, reason)


def _steal(given: GateInput) -> Gate:
    value = given.steal
    if value is None:
        return Gate("cpu_steal", None, None, STEAL_LIMIT, "this system does not tell stolen processor time")
    ok = value <= STEAL_LIMIT
    reason = (
        "the machine had its processors to itself"
        if ok
        else f"{value:.0%} of the processor time went to other guests of the host; measure again or elsewhere"
    )
    return Gate("cpu_steal", ok, value, STEAL_LIMIT, reason)


def _others(given: GateInput) -> Gate:
    value = given.others
    if value is None:
        return Gate("cpu_others", None, None, OTHERS_LIMIT, "the server's process is not known here")
    ok = value <= OTHERS_LIMIT
    reason = (
        "client and server had the machine to themselves"
        if ok
        else f"other programs used {value:.0%} of the processors meanwhile; end them, then measure again"
    )
    return Gate("cpu_others", ok, value, OTHERS_LIMIT, reason)


def _prefix_cache(given: GateInput) -> Gate:
    """Hits by the server's counter against what the schedule's prompts share among themselves."""
    name = "prefix_cache"
    if given.schedule.repeated_prompts:
        reason = f"{given.schedule.repeated_prompts} prompts repeat others of the run: caching flatters it; give more prompts"
        return Gate(name, False, float(given.schedule.repeated_prompts), 0.0, reason)
    asked = given.counters.get("prefix_query_tokens")
    hits = given.counters.get("prefix_hit_tokens")
    if not asked or hits is None:
        told = [r for r in given.load.records if r.cached_tokens is not None and r.prompt_tokens]
        if not told:
            return Gate(
                name, None, None, None, "the server tells no prefix hits; prompts of this run are fresh"
            )
        hits = float(sum(r.cached_tokens or 0 for r in told))
        asked = float(sum(r.prompt_tokens or 0 for r in told))
    value = hits / asked
    limit = min(1.0, given.schedule.shared_prefix_share() + CACHE_MARGIN + _template_share(given))
    ok = value <= limit
    reason = (
        f"{value:.0%} of prompt tokens were reused, no more than the prompts share among themselves"
        if ok
        else f"{value:.0%} of prompt tokens were reused, but the prompts share only {limit:.0%}: the cache was warm "
        "from before; use another --seed or restart the server"
    )
    return Gate(name, ok, value, limit, reason)


def _template_share(given: GateInput) -> float:
    """Share of a prompt that the chat template itself may put in front, which all prompts then have in common."""
    lengths = [r.prompt_tokens for r in given.load.records if r.prompt_tokens]
    if not lengths or all((e.messages or ({},))[0].get("role") == "system" for e in given.schedule.entries):
        return 0.0
    return min(0.9, TEMPLATE_TOKENS / float(np.mean(lengths)))
