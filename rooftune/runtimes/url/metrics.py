"""A server's Prometheus metrics in Rooftune's words. Names: vLLM's, which other servers (ours too) mirror."""

from __future__ import annotations

from collections import defaultdict

from prometheus_client.parser import text_string_to_metric_families

COUNTERS = {
    "generation_tokens_total": "generated_tokens",
    "prompt_tokens_total": "prompt_tokens",
    "prefix_cache_queries_total": "prefix_query_tokens",
    "prefix_cache_hits_total": "prefix_hit_tokens",
    "num_preemptions_total": "preemptions",
    "engine_steps_total": "steps",
    # In vLLM a histogram with one observation a step.
    "iteration_tokens_total_count": "steps",
    "spec_decode_num_drafts_total": "drafts",
    "spec_decode_num_draft_tokens_total": "draft_tokens",
    "spec_decode_num_accepted_tokens_total": "accepted_tokens",
    "request_success_total": "finished",
    "request_queue_time_seconds_sum": "queue_seconds",
    "request_queue_time_seconds_count": "queue_requests",
    "request_prefill_time_seconds_sum": "prefill_seconds",
    "request_decode_time_seconds_sum": "decode_seconds",
}
SUMMED_GAUGES = {"num_requests_running": "running", "num_requests_waiting": "waiting"}
SHARE_GAUGES = {"kv_cache_usage_perc": "kv_used", "gpu_cache_usage_perc": "kv_used"}
_PREFIXES = ("vllm:", "rooftune:")


def read_metrics(text: str) -> tuple[dict[str, float], dict[str, float]]:
    """Counters and gauges. Replicas and labels are summed; shares (0 to 1) are averaged. Absent is absent, not 0."""
    counters: defaultdict[str, float] = defaultdict(float)
    gauges: defaultdict[str, float] = defaultdict(float)
    shares: defaultdict[str, list[float]] = defaultdict(list)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            prefix = next((prefix for prefix in _PREFIXES if sample.name.startswith(prefix)), None)
            if prefix is None:
                continue
            name = sample.name.removeprefix(prefix)
            if name in COUNTERS:
                counters[COUNTERS[name]] += sample.value
            elif name in SUMMED_GAUGES:
                gauges[SUMMED_GAUGES[name]] += sample.value
            elif name in SHARE_GAUGES:
                shares[SHARE_GAUGES[name]].append(sample.value)
    means = {name: sum(values) / len(values) for name, values in shares.items()}
    return dict(counters), {**gauges, **means}
