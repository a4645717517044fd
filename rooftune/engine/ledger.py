"""The technique ledger of the engine: for each switch, was it really on, and which counter shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rooftune.engine.contracts import EngineConfig
from rooftune.engine.stats import EngineStats


@dataclass(frozen=True, slots=True)
class Counter:
    name: str
    value: int


@dataclass(frozen=True, slots=True)
class Entry:
    """active: True only if the counter moved; None while there was no occasion; reason says why not, or how much."""

    name: str
    requested: Any
    active: bool | None
    reason: str
    counter: Counter


def ledger(config: EngineConfig, stats: EngineStats, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """One entry per switch; ``facts`` is the model runner's own description."""
    checks: list[Callable[[EngineConfig, EngineStats], Entry]] = [
        _batching,
        _slots,
        _token_budget,
        _chunked_prefill,
        _prefix_cache,
        _weight_kernel,
    ]
    entries = [check(config, stats) for check in checks]
    entries.append(_threads(config, facts))
    return [asdict(_without_steps(entry) if stats.steps == 0 else entry) for entry in entries]


def _without_steps(entry: Entry) -> Entry:
    if entry.name == "threads" or entry.active is False:
        return entry
    return Entry(entry.name, entry.requested, None, "no step has run yet", entry.counter)


def _batching(config: EngineConfig, stats: EngineStats) -> Entry:
    if config.batching == "continuous":
        joins = stats.joins_while_running
        reason = (
            f"{joins} requests joined while others ran"
            if joins
            else "no request came while another ran: any batching would have done the same"
        )
        return Entry(
            "batching",
            config.batching,
            True if joins else None,
            reason,
            Counter("joins_while_running", joins),
        )
    formed = stats.batches_formed
    largest = max(stats.batch_sizes, default=0)
    reason = f"{formed} batches formed, the largest of {largest}; {stats.idle_row_steps} idle row-steps"
    return Entry("batching", config.batching, formed > 0, reason, Counter("batches_formed", formed))


def _slots(config: EngineConfig, stats: EngineStats) -> Entry:
    peak = stats.peak_running
    reached = "the limit was reached" if peak >= config.slots else "the limit was never reached"
    reason = f"at most {peak} ran at once; {reached}"
    return Entry("slots", config.slots, peak > 0, reason, Counter("peak_running", peak))


def _token_budget(config: EngineConfig, stats: EngineStats) -> Entry:
    full = stats.budget_full_steps
    reason = f"{full} steps used it up" if full else "no step had that much to compute: it bound nothing"
    return Entry(
        "token_budget",
        config.token_budget,
        True if full else None,
        reason,
        Counter("budget_full_steps", full),
    )


def _chunked_prefill(config: EngineConfig, stats: EngineStats) -> Entry:
    split, mixed = stats.prompts_split, stats.mixed_steps
    counter = Counter("prompts_split_or_mixed_steps", split + mixed)
    if not config.chunked_prefill:
        return Entry("chunked_prefill", False, False, "switched off", counter)
    if split or mixed:
        reason = f"{split} prompts split, {mixed} steps with prompt tokens and decodes"
        return Entry("chunked_prefill", True, True, reason, counter)
    reason = "every prompt fitted in the budget and none came while others decoded"
    return Entry("chunked_prefill", True, None, reason, counter)


def _prefix_cache(config: EngineConfig, stats: EngineStats) -> Entry:
    counter = Counter("prefix_hit_tokens", stats.prefix_hits)
    if config.prefix_cache == "none":
        return Entry("prefix_cache", "none", False, "switched off", counter)
    if stats.prefix_hits:
        share = stats.prefix_hits / stats.prefix_queries
        reason = (
            f"{stats.prefix_hits} of {stats.prefix_queries} prompt tokens ({share:.0%}) came from the cache"
        )
        return Entry("prefix_cache", config.prefix_cache, True, reason, counter)
    reason = f"no prompt began with a full page of {config.page_size} tokens that was still cached"
    return Entry("prefix_cache", config.prefix_cache, False, reason, counter)


def _weight_kernel(config: EngineConfig, stats: EngineStats) -> Entry:
    # Operators count as "<set>.<operator>"; only the linear ones read weights, and one set is the reference.
    linear = {name: value for name, value in stats.runner_counters.items() if "linear" in name}
    reference = sum(value for name, value in linear.items() if name.startswith("reference."))
    packed = sum(linear.values()) - reference
    wanted, other = (packed, reference) if config.weight_kernel == "packed" else (reference, packed)
    counter = Counter(f"{config.weight_kernel}_linear_calls", wanted)
    if wanted:
        also = f"; {other} calls went to the other kind" if other else ""
        return Entry("weight_kernel", config.weight_kernel, True, f"{wanted} calls{also}", counter)
    reason = f"no call of a {config.weight_kernel} linear kernel was counted by the model runner"
    return Entry("weight_kernel", config.weight_kernel, False, reason, counter)


def _threads(config: EngineConfig, facts: dict[str, Any]) -> Entry:
    threads = facts.get("threads")
    if threads is None:
        return Entry("threads", config.threads, None, "the runner does not tell", Counter("threads", 0))
    reason = f"the model runner uses {threads}"
    return Entry(
        "threads", config.threads, threads == config.threads, reason, Counter("threads", int(threads))
    )
