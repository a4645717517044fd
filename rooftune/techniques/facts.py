"""The facts that cards and selection read: every name in one place, and how each is taken from a finished run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rooftune.arithmetic import kv_bytes_per_token, kv_read_bytes
from rooftune.errors import WrongInput
from rooftune.store.records import RequestRecord
from rooftune.store.run import Run

FACTS: dict[str, str] = {
    "slots": "most sequences that run at once, as resolved",
    "token_budget": "most new tokens in one step, as resolved",
    "pool_tokens": "tokens that the KV pool holds, as resolved",
    "threads": "threads that compute, as resolved",
    "cores": "hardware threads of the server's machine",
    "running_mean": "running sequences, mean over the time in steps",
    "running_max": "most running sequences in a step",
    "waiting_mean": "waiting requests, mean over the time in steps",
    "waiting_max": "most waiting requests at a step",
    "busy_share": "time in steps / duration of the run",
    "queue_mean": "seconds that a request waited in the server before its first step (its own timings)",
    "prefill_mean": "seconds from a request's first step to its first token (server timings)",
    "decode_mean": "seconds from its first to its last token (server timings)",
    **{
        f"{name}_{statistic}": f"{name.upper()} in seconds, {statistic}"
        for name in ("ttft", "tpot", "itl", "e2e")
        for statistic in ("mean", "p50", "p90", "p95", "p99")
    },
    "tpot_tail": "tpot_p95 / tpot_p50",
    "slo_attainment": "share of offered requests that met every bound",
    "requests_per_second": "answered requests per second",
    "output_tokens_per_second": "output tokens per second",
    "mbu": "bytes that steps had to move / what the memory could move meanwhile",
    "mfu": "useful operations / what the processor could do meanwhile",
    "cost_per_million_output_tokens": "currency of the price",
    "prompt_tokens_mean": "tokens of a prompt, mean",
    "prompt_tokens_max": "tokens of the longest prompt",
    "output_tokens_mean": "tokens of an answer, mean",
    "cached_tokens_mean": "prompt tokens that were not computed again, mean",
    "shared_prefix_share": "share of the prompts' text that begins like another prompt of the run (upper bound of reuse)",
    "prefix_hit_share": "prompt tokens found in the prefix cache / asked for",
    "decode_step_seconds": "mean duration of steps without prompt tokens",
    "decode_rows_mean": "mean sequences in those steps",
    "decode_context_mean": "mean cached tokens of a sequence in those steps",
    "prefill_seconds_per_token": "duration of steps with prompt tokens only / their tokens",
    "prefill_time_share": "time in steps that hold prompt tokens / time in steps",
    "prefill_step_max": "seconds of the longest step that holds prompt tokens",
    "arrival_rate": "requests per second that were offered (open loop); None in a closed loop",
    "service_capacity": "requests finished per second in steps: the rate at which steps would never pause",
    "utilisation": "arrival_rate / service_capacity",
    "kv_used_max": "largest share of the KV pool in use",
    "preemptions": "requests put back to the queue for lack of KV",
    "weight_bytes": "bytes of weights that one step reads",
    "kv_bytes_per_token": "bytes of KV that one token adds",
    "decode_kv_share": "KV bytes / all bytes of a mean decode step",
    "weights_memory_share": "weights / memory of the machine",
    "memory_bytes": "memory of the server's machine",
}
"""Fact to its meaning. Times in seconds, shares 0 to 1. A fact that was not measured is None, never 0."""

_METRICS = tuple(
    [f"{name}_{s}" for name in ("ttft", "tpot", "itl", "e2e") for s in ("mean", "p50", "p90", "p95", "p99")]
    + [
        "slo_attainment",
        "requests_per_second",
        "output_tokens_per_second",
        "mbu",
        "mfu",
        "cost_per_million_output_tokens",
    ]
)
_RESOLVED = ("slots", "token_budget", "pool_tokens", "threads")

_LOCAL = re.compile(r"//(127\.0\.0\.1|localhost|\[::1\])[:/]")
"""Addresses of this machine."""

Step = dict[str, float]


def facts_from_run(run: Run) -> dict[str, float | None]:
    """Every fact of :data:`FACTS`, None where the run does not tell it."""
    facts: dict[str, float | None] = dict.fromkeys(FACTS)
    for name in _METRICS:
        metric = run.metric(name)
        facts[name] = metric.value if metric is not None else None
    resolved = run.resolved or {}
    for name in _RESOLVED:
        facts[name] = _number(resolved.get(name))
    _from_steps(run, facts)
    _from_records(run, facts)
    _from_workload(run, facts)
    _from_model(run, facts)
    _from_environment(run, facts)
    queries, hits = run.counters.get("prefix_query_tokens"), run.counters.get("prefix_hit_tokens")
    facts["prefix_hit_share"] = hits / queries if queries and hits is not None else None
    facts["preemptions"] = run.counters.get("preemptions")
    facts["tpot_tail"] = _ratio(facts["tpot_p95"], facts["tpot_p50"])
    facts["utilisation"] = _ratio(facts["arrival_rate"], facts["service_capacity"])
    return facts


def _from_steps(run: Run, facts: dict[str, float | None]) -> None:
    steps = run.steps
    seconds = sum(step["seconds"] for step in steps)
    if not steps or seconds <= 0:
        for name in ("running", "waiting"):
            values = _series(run, name)
            facts[f"{name}_mean"] = sum(values) / len(values) if values else None
            facts[f"{name}_max"] = max(values) if values else None
        values = _series(run, "kv_used")
        facts["kv_used_max"] = max(values) if values else None
        return
    for name in ("running", "waiting"):
        if name in steps[0]:
            facts[f"{name}_mean"] = sum(step[name] * step["seconds"] for step in steps) / seconds
            facts[f"{name}_max"] = max(step[name] for step in steps)
    duration = (run.end_ns - run.begin_ns) / 1e9
    facts["busy_share"] = min(seconds / duration, 1.0) if duration > 0 else None
    finished = sum(record.succeeded for record in run.records)
    facts["service_capacity"] = finished / seconds if finished else None
    decode = [s for s in steps if not s.get("prefill_tokens") and s.get("decode_rows")]
    if decode:
        rows = sum(step["decode_rows"] for step in decode)
        facts["decode_step_seconds"] = sum(step["seconds"] for step in decode) / len(decode)
        facts["decode_rows_mean"] = rows / len(decode)
        facts["decode_context_mean"] = sum(decode_context(step) for step in decode) / rows
    prefill = [step for step in steps if step.get("prefill_tokens")]
    facts["prefill_time_share"] = sum(step["seconds"] for step in prefill) / seconds
    facts["prefill_step_max"] = max((step["seconds"] for step in prefill), default=None)
    alone = [step for step in prefill if not step.get("decode_rows")]
    tokens = sum(step["prefill_tokens"] for step in alone)
    facts["prefill_seconds_per_token"] = sum(step["seconds"] for step in alone) / tokens if tokens else None
    resolved = run.resolved or {}
    pool, page = _number(resolved.get("pool_tokens")), _number(resolved.get("page_size"))
    if pool and page and "used_pages" in steps[0]:
        facts["kv_used_max"] = min(max(step["used_pages"] for step in steps) * page / pool, 1.0)


def decode_context(step: Step) -> float:
    """Tokens that the decode rows of a step read. ``context_tokens`` counts a prompt's query-key pairs too, so it is
    taken only where the step has no prompt tokens or nothing better is told."""
    return step["decode_context"] if "decode_context" in step else step.get("context_tokens", 0.0)


def _from_records(run: Run, facts: dict[str, float | None]) -> None:
    done = [record for record in run.records if record.succeeded]
    for name in ("queue", "prefill", "decode"):
        told = [timings[name] for r in done if (timings := r.server_timings) is not None and name in timings]
        facts[f"{name}_mean"] = _mean(told)
    prompts = _known(done, lambda record: record.prompt_tokens)
    facts["prompt_tokens_mean"] = _mean(prompts)
    facts["prompt_tokens_max"] = max(prompts, default=None)
    facts["output_tokens_mean"] = _mean(_known(done, lambda record: record.output_tokens))
    facts["cached_tokens_mean"] = _mean(_known(done, lambda record: record.cached_tokens))


def _from_workload(run: Run, facts: dict[str, float | None]) -> None:
    facts["shared_prefix_share"] = _number(run.workload.get("shared_prefix_share"))
    if run.workload.get("process") == "concurrency":
        return
    stated = _number(run.workload.get("rate"))
    times = sorted(record.scheduled_ns for record in run.records)
    if stated is not None:
        facts["arrival_rate"] = stated
    elif len(times) > 1 and times[-1] > times[0]:
        facts["arrival_rate"] = (len(times) - 1) / ((times[-1] - times[0]) / 1e9)


def _from_model(run: Run, facts: dict[str, float | None]) -> None:
    model = (run.resolved or {}).get("model")
    if not isinstance(model, dict):
        return
    facts["weight_bytes"] = _number(model.get("weight_bytes"))
    facts["kv_bytes_per_token"] = _number(model.get("kv_bytes_per_token"))
    weights, token, config = facts["weight_bytes"], facts["kv_bytes_per_token"], model.get("config")
    context, rows = facts["decode_context_mean"], facts["decode_rows_mean"]
    if weights and token and context is not None and rows and isinstance(config, dict):
        try:
            element = token / kv_bytes_per_token(config, 1.0)
            read = rows * kv_read_bytes(config, context, element)
        except WrongInput:
            return
        facts["decode_kv_share"] = read / (read + weights)


def _from_environment(run: Run, facts: dict[str, float | None]) -> None:
    """Only what is known of the server's own machine: a client's memory says nothing of a server elsewhere."""
    roofs = run.roofs
    if isinstance(roofs, dict):
        facts["cores"] = _number(roofs.get("threads"))
    if roofs is not None or _LOCAL.search(str(run.target.get("url", ""))):
        facts["memory_bytes"] = _number(run.environment.get("memory_bytes"))
        facts["cores"] = facts["cores"] or _number(run.environment.get("cores"))
    facts["weights_memory_share"] = _ratio(facts["weight_bytes"], facts["memory_bytes"])


def _series(run: Run, name: str) -> Sequence[float]:
    return next((series.values for series in run.series if series.name == name), ())


def _known(records: Iterable[RequestRecord], read: Callable[[RequestRecord], int | None]) -> list[float]:
    return [float(value) for record in records if (value := read(record)) is not None]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _ratio(top: float | None, bottom: float | None) -> float | None:
    return top / bottom if top is not None and bottom else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
