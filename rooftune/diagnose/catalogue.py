"""The closed list of causes. Those without a judge in this version say so; they are never silently refuted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cause:
    id: str
    meaning: str
    family: str


CAUSES: dict[str, Cause] = {
    cause.id: cause
    for cause in (
        Cause("prefill_compute", "prompt processing at the arithmetic roof", "compute"),
        Cause("compute_bound_batch", "batch so large that bytes no longer bind", "compute"),
        Cause("decode_bandwidth", "steps bound by reading weights", "bandwidth"),
        Cause("kv_bandwidth", "steps bound by reading KV", "bandwidth"),
        Cause("kv_capacity", "KV pool full, requests wait", "capacity"),
        Cause("kv_thrash", "preempt, evict, recompute", "capacity"),
        Cause("mem_oom", "weights, activations or logprobs do not fit", "capacity"),
        Cause("queue_slots", "running = slot limit, pool not full", "queueing"),
        Cause("overload", "offered load above capacity with no single limit", "queueing"),
        Cause("batch_wait", "the batcher waits for more", "queueing"),
        Cause("prefill_interference", "others' prefill inside my decode steps", "scheduling"),
        Cause("head_of_line", "a long prompt blocks short ones (tail only)", "scheduling"),
        Cause("comm_tp", "all-reduce", "communication"),
        Cause("comm_net", "network path", "communication"),
        Cause("ep_imbalance", "expert imbalance", "communication"),
        Cause("launch_overhead", "host launches, no graph", "kernels"),
        Cause("kernel_path", "slow or fallback kernel, wrong type for the device", "kernels"),
        Cause("threads", "too few, too many, badly placed threads, NUMA", "kernels"),
        Cause("cpu_frontend", "HTTP, tokenizer, detokenizer", "host"),
        Cause("cpu_preproc", "image preprocessing", "host"),
        Cause("cpu_sampler", "penalties, grammar", "host"),
        Cause("gc_pause", "periodic stalls", "host"),
        Cause("jit_warmup", "first-use compilation", "host"),
        Cause("cache_miss_prefix", "prefixes that should hit do not", "reuse"),
        Cause("routing", "uneven replicas", "service"),
        Cause("offload_overhead", "transfers dearer than recompute", "service"),
        Cause("proxy_overhead", "a layer in between", "service"),
        Cause("spec_low_acceptance", "drafts rejected", "decoding"),
        Cause("spec_saturated", "no spare compute for drafts", "decoding"),
        Cause("client_bound", "the client limits", "measurement"),
        Cause("loadgen_invalid", "warm cache, too few prompts, wrong metric", "measurement"),
        Cause("clock_throttle", "clocks fell", "change"),
        Cause("config_noop", "the change did not take effect", "change"),
        Cause("regression_version", "a version is slower", "change"),
        Cause("quality_regression", "answers got worse", "quality"),
        Cause("healthy", "nothing to blame", "none"),
        Cause("unknown", "evidence does not decide", "none"),
    )
}


def not_judged(judged: frozenset[str]) -> tuple[str, ...]:
    """Ids of the list that this version has no judge for, in order."""
    return tuple(id for id in CAUSES if id not in judged and id != "unknown")
