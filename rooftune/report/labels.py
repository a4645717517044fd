"""What people call metrics, causes, decisions and kinds of evidence, and how each metric's values are written."""

from __future__ import annotations

from typing import Literal

from rooftune.report import words
from rooftune.spec import GOAL_DIMENSIONS, QUALITY_DIMENSIONS
from rooftune.store.result import Decision, Verdict

_FAMILIES = {
    "ttft": ("TTFT", "time to first token"),
    "ttft_answer": ("TTFT (answer)", "time to the first visible token"),
    "tpot": ("TPOT", "time per output token"),
    "itl": ("ITL", "gap between tokens"),
    "e2e": ("E2E", "time to the whole answer"),
    "queue": ("Queue", "time in the server's queue"),
    "chunk_gap": ("Chunk gap", "gap between chunks"),
    "send_lag": ("Send lag", "how late our own client was"),
}
_STATISTICS = {
    "mean": "mean",
    "p50": "median",
    "p90": "90 % of requests are below",
    "p95": "95 % of requests are below",
    "p99": "99 % of requests are below",
}
_SINGLE = {
    "slo_attainment": ("SLO attainment", "share of requests that met every SLO"),
    "goodput": ("Goodput", "requests per second that met every SLO"),
    "requests_per_second": ("Requests/s", "requests answered per second"),
    "input_tokens_per_second": ("Input tokens/s", "prompt tokens per second"),
    "output_tokens_per_second": ("Output tokens/s", "answer tokens per second"),
    "total_tokens_per_second": ("Total tokens/s", "prompt and answer tokens per second"),
    "error_rate": ("Error rate", "share of requests that failed"),
    "mfu": ("MFU", "useful arithmetic over the measured peak"),
    "mbu": ("MBU", "bytes that must move over the measured bandwidth"),
    "cost_per_million_output_tokens": ("Cost per 1M output tokens", "price of a million answer tokens"),
    "kl_mean": ("KL, mean", "divergence of the next-token distribution from the baseline's"),
    "top1_agreement": ("Top-1 agreement", "share of tokens where both would choose the same next token"),
}
_HIGHER_IS_BETTER = frozenset(
    {"slo_attainment", "goodput", "mfu", "mbu", "top1_agreement"}
    | {f"{what}_per_second" for what in ("requests", "input_tokens", "output_tokens", "total_tokens")}
)


def _family(metric: str) -> tuple[str, str]:
    family, _, statistic = metric.rpartition("_")
    return (family, statistic) if family in _FAMILIES and statistic in _STATISTICS else (metric, "")


def label(metric: str) -> str:
    """Short name: ``TTFT p95``. A metric that is not known keeps its own name, in words."""
    if metric in _SINGLE:
        return _SINGLE[metric][0]
    family, statistic = _family(metric)
    if family in _FAMILIES:
        return f"{_FAMILIES[family][0]} {statistic}".strip()
    return words.humanize(metric)


def meaning(metric: str) -> str:
    """A few words on what it is, or an empty text."""
    if metric in _SINGLE:
        return _SINGLE[metric][1]
    family, statistic = _family(metric)
    if family not in _FAMILIES:
        return ""
    return f"{_FAMILIES[family][1]}{', ' + _STATISTICS[statistic] if statistic else ''}"


def direction(metric: str) -> Literal["lower", "higher", "unknown"]:
    """Which way is better."""
    if metric in _HIGHER_IS_BETTER:
        return "higher"
    known = metric in _SINGLE or _family(metric)[0] in _FAMILIES
    return "lower" if known else "unknown"


def value(metric: str, amount: float | None, unit: str = "", currency: str = "") -> str:
    """One value of a metric with its unit; money in ``currency``."""
    if amount is None or not words.known(amount):
        return words.MISSING
    dimension = GOAL_DIMENSIONS.get(metric) or QUALITY_DIMENSIONS.get(metric)
    if dimension == "time" or (dimension is None and (unit == "s" or _family(metric)[0] in _FAMILIES)):
        return words.duration(amount)
    if dimension == "share" or (dimension is None and unit in ("share", "1", "%")):
        return words.percent(amount)
    if dimension == "money":
        return words.money(amount, currency or unit or "USD")
    if dimension == "rate":
        return f"{words.number(amount)}/s"
    return (
        f"{words.number(amount)} {unit}".strip()
        if unit not in ("plain", "count", "1")
        else words.number(amount)
    )


def bound(target: str) -> str:
    """A goal's target as it is printed: ``≤ 1 s``."""
    return target.replace(">=", "≥").replace("<=", "≤")


VERDICTS: dict[Verdict, tuple[str, str, str]] = {
    "improved": ("✓", "Improved", "It worked."),
    "no effect": ("=", "No effect", "Nothing that was tried made a difference."),
    "regressed": ("✗", "Regressed", "It got worse."),
    "inconclusive": ("?", "Inconclusive", "The measurements do not decide."),
    "invalid": ("!", "Invalid", "Do not use these numbers for a decision."),
}
"""Verdict -> sign, word, plain sentence."""

DECISIONS: dict[Decision, tuple[str, str]] = {
    "accepted": ("✓", "accepted"),
    "rejected": ("✗", "rejected"),
    "inconclusive": ("?", "inconclusive"),
    "failed": ("!", "failed"),
    "not_applicable": ("·", "does not apply"),
    "not_tried": ("·", "not tried"),
}

CAUSES = {
    "prefill_compute": "Prompt processing is at the arithmetic roof",
    "compute_bound_batch": "The batch is so large that arithmetic binds",
    "decode_bandwidth": "Steps are bound by reading the weights",
    "kv_bandwidth": "Steps are bound by reading the KV cache",
    "kv_capacity": "The KV cache is full and requests wait",
    "kv_thrash": "Sequences are evicted and computed again",
    "mem_oom": "The model does not fit in memory",
    "queue_slots": "Every slot is taken and requests wait",
    "overload": "More load is offered than can be carried",
    "batch_wait": "The batcher waits for more requests",
    "prefill_interference": "Other requests' prompts slow down running answers",
    "head_of_line": "A long prompt blocks short ones",
    "comm_tp": "Devices wait for each other's partial results",
    "comm_net": "The network path binds",
    "ep_imbalance": "Experts are unevenly loaded",
    "launch_overhead": "Starting operators takes longer than running them",
    "kernel_path": "A slow kernel or the wrong number type is in use",
    "threads": "The number or placement of threads is wrong",
    "cpu_frontend": "The HTTP server or tokenizer binds",
    "cpu_preproc": "Preparing the inputs binds",
    "cpu_sampler": "Choosing the next token binds",
    "gc_pause": "Periodic stalls of the host",
    "jit_warmup": "First use compiles",
    "cache_miss_prefix": "Shared prompt prefixes are computed again",
    "routing": "Replicas are unevenly loaded",
    "offload_overhead": "Transfers cost more than computing again",
    "proxy_overhead": "A layer in between adds time",
    "spec_low_acceptance": "Drafted tokens are rejected",
    "spec_saturated": "No spare arithmetic for drafts",
    "client_bound": "The load generator limits, not the server",
    "loadgen_invalid": "The load itself was not valid",
    "clock_throttle": "The processor's clock fell",
    "config_noop": "The change did not take effect",
    "regression_version": "A version is slower",
    "quality_regression": "Answers got worse",
    "healthy": "Nothing to blame",
    "unknown": "The evidence does not decide",
}

STATUSES = {"supported": "supported", "refuted": "refuted", "unknown": "not decided"}
ARMS = {"baseline": "Baseline", "final": "Final", "defaults": "Rooftune defaults"}
"""The arms of a result in the order in which they are shown."""


def cause(identifier: str) -> str:
    return CAUSES.get(identifier, words.humanize(identifier))


def arm(name: str) -> str:
    return ARMS.get(name, words.humanize(name))


def arms_of(names: object) -> list[str]:
    """Known arms first, in their order; any other after them."""
    present = [str(name) for name in names] if hasattr(names, "__iter__") else []
    return [*(name for name in ARMS if name in present), *(name for name in present if name not in ARMS)]
