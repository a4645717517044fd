"""Prometheus metrics. The names are vLLM's with the prefix ``rooftune:``, so that a dashboard needs one replacement.

The prefix is our own because this server is not vLLM: tools that recognise an engine by it must not be misled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rooftune.engine.contracts import EngineConfig
from rooftune.engine.stats import EngineStats

PREFIX = "rooftune:"
# fmt: off
_SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0)
_LONG = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0)
_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000)
# fmt: on


class EngineCollector(Collector):
    """The engine's own counters and gauges, read at the moment of the scrape."""

    def __init__(self, stats: Callable[[], EngineStats], config: EngineConfig, model: str) -> None:
        self._stats = stats
        self._config = config
        self._model = model

    def collect(self) -> Iterable[Metric]:
        stats = self._stats()
        for name, text, value in (
            ("num_requests_running", "Requests in the running batch.", stats.running),
            ("num_requests_waiting", "Requests that wait to be admitted.", stats.waiting),
            ("kv_cache_usage_perc", "Share of KV pages used by running requests, 0 to 1.", used_share(stats)),
            ("kv_pages_free", "KV pages that no request uses.", stats.pages_free),
            ("kv_pages_total", "KV pages in the pool.", stats.pages_total),
        ):
            yield self._gauge(name, text, value)
        for name, text, value in (
            ("num_preemptions", "Requests that were preempted and computed again.", stats.preemptions),
            ("prefix_cache_queries", "Prompt tokens looked up in the prefix cache.", stats.prefix_queries),
            ("prefix_cache_hits", "Prompt tokens found in the prefix cache.", stats.prefix_hits),
            ("prompt_tokens", "Prompt tokens processed, cached ones included.", stats.prompt_tokens),
            ("generation_tokens", "Tokens generated.", stats.generation_tokens),
            ("prefill_tokens", "Prompt tokens computed, recomputed ones included.", stats.prefill_tokens),
            ("engine_steps", "Forward passes.", stats.steps),
        ):
            family = CounterMetricFamily(PREFIX + name, text, labels=("model_name",))
            family.add_metric((self._model,), value)
            yield family
        info = GaugeMetricFamily(
            PREFIX + "cache_config_info",
            "Settings of the KV cache.",
            labels=("model_name", "block_size", "num_gpu_blocks", "enable_prefix_caching"),
        )
        caching = str(self._config.prefix_cache != "none")
        info.add_metric((self._model, str(self._config.page_size), str(stats.pages_total), caching), 1)
        yield info

    def _gauge(self, name: str, text: str, value: float) -> GaugeMetricFamily:
        family = GaugeMetricFamily(PREFIX + name, text, labels=("model_name",))
        family.add_metric((self._model,), value)
        return family


class ServerMetrics:
    """What is counted per request, and the text of ``/metrics``."""

    def __init__(self, model: str, stats: Callable[[], EngineStats], config: EngineConfig) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(EngineCollector(stats, config, model))
        self._model = model
        self._first = self._histogram("time_to_first_token_seconds", "Arrival to first token.", _LONG)
        self._gap = self._histogram("inter_token_latency_seconds", "Between tokens of a request.", _SHORT)
        self._per_token = self._histogram(
            "request_time_per_output_token_seconds", "Mean time per token after the first.", _SHORT
        )
        self._whole = self._histogram("e2e_request_latency_seconds", "Arrival to end.", _LONG)
        self._stages = {
            stage: self._histogram(f"request_{stage}_time_seconds", f"Time in {stage}.", _LONG)
            for stage in ("queue", "prefill", "decode")
        }
        self._inference = self._histogram("request_inference_time_seconds", "Prefill and decode.", _LONG)
        self._prompt = self._histogram("request_prompt_tokens", "Prompt tokens of a request.", _TOKENS)
        self._output = self._histogram("request_generation_tokens", "Tokens generated for a choice.", _TOKENS)
        self._success = Counter(
            PREFIX + "request_success",
            "Choices answered.",
            ("model_name", "finished_reason"),
            registry=self._registry,
        )
        self._aborted = Counter(
            PREFIX + "request_aborted", "Choices given up: the client hung up, the engine failed, or the server stops.",
            ("model_name",), registry=self._registry,
        )  # fmt: skip
        self._refused = Counter(
            PREFIX + "request_refused", "Requests refused.", ("model_name", "reason"), registry=self._registry
        )
        self._open = Gauge(
            PREFIX + "num_requests_open", "Requests that the engine has not ended yet.", ("model_name",),
            registry=self._registry,
        ).labels(model)  # fmt: skip

    def first_token(self, seconds: float) -> None:
        self._first.observe(seconds)

    def next_tokens(self, seconds: float, tokens: int) -> None:
        """Tokens that came together after a gap: each is counted with its share of it."""
        for _ in range(tokens):
            self._gap.observe(seconds / tokens)

    def answered(
        self, prompt_tokens: int, choices: Sequence[tuple[str, int, Mapping[str, float]]], arrived_ns: int
    ) -> None:
        """A request is complete; ``choices``: finish reason, tokens, and seconds by stage of each."""
        self._whole.observe((time.monotonic_ns() - arrived_ns) / 1e9)
        self._prompt.observe(prompt_tokens)
        for finish, tokens, timings in choices:
            self._success.labels(self._model, finish).inc()
            self._output.observe(tokens)
            for stage, histogram in self._stages.items():
                if stage in timings:
                    histogram.observe(timings[stage])
            if "prefill" in timings and "decode" in timings:
                self._inference.observe(timings["prefill"] + timings["decode"])
            if tokens > 1 and "decode" in timings:
                self._per_token.observe(timings["decode"] / (tokens - 1))

    def aborted(self, choices: int) -> None:
        self._aborted.labels(self._model).inc(choices)

    def refused(self, reason: str) -> None:
        self._refused.labels(self._model, reason).inc()

    def render(self, open_requests: int) -> bytes:
        """Everything in Prometheus' text format."""
        self._open.set(open_requests)
        return generate_latest(self._registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(
            PREFIX + name, text, ("model_name",), buckets=buckets, registry=self._registry
        ).labels(self._model)


def used_share(stats: EngineStats) -> float:
    """Share of the page pool that running requests hold, 0 to 1."""
    return stats.pages_used / stats.pages_total
