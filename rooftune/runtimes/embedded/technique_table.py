"""Every technique of the catalogue on the embedded engine: the switches that reach it, or the reason why none does."""

from __future__ import annotations

from rooftune.runtimes.contract import Mapping, TechniqueTable


def _not_yet(what: str) -> Mapping:
    return Mapping(reason=f"the embedded engine does not have {what} yet")


def _no(reason: str) -> Mapping:
    return Mapping(reason=reason)


def _by(*switches: str) -> Mapping:
    return Mapping(switches=switches)


_OTHER_MODEL = "it makes another model; serve that model instead (no switch of a running engine does it)"

TECHNIQUES: TechniqueTable = {
    # Scheduling
    "static_batching": _by("batching"),
    "dynamic_batching": _by("batching", "batch_wait"),
    "continuous_batching": _by("batching"),
    "more_slots": _by("slots"),
    "fewer_slots": _by("slots"),
    "token_budget": _by("token_budget"),
    "chunked_prefill": _by("chunked_prefill", "token_budget"),
    "admission_control": _no(
        "the engine's queue limit is fixed (a full queue answers 429); no switch sets a bound by waiting time yet"
    ),
    # Memory for keys and values
    "prefix_caching": _by("prefix_cache"),
    "paged_attention": _no(
        "always on: keys and values live in pages, there is no unpaged mode to compare with"
    ),
    "more_memory": _by("pool_tokens"),
    "kv_quantization": _not_yet("quantized keys and values"),
    "kv_compression": _not_yet("compressed keys and values"),
    "selective_kv": _not_yet("eviction of single tokens' keys and values"),
    # Kernels and threads
    "packed_weight_kernel": _by("weight_kernel"),
    "thread_placement": _by("threads"),
    "kernel_vectorization": _no(
        "not a switch of its own: the native kernels of weight_kernel=packed are vectorized"
    ),
    "kernel_parallelization": _no("not a switch of its own: the number of threads is the switch 'threads'"),
    "kernel_tiling": _no("not a switch of its own: the native kernels of weight_kernel=packed are tiled"),
    "kernel_fusion": _not_yet("fused operators"),
    "attention_kernel": _not_yet("a second attention kernel to choose from"),
    "compiler": _not_yet("compiled graphs"),
    # Decoding
    "speculative_decoding": _not_yet("a draft model"),
    "ngram_speculation": _not_yet("n-gram drafts"),
    "lookahead_decoding": _not_yet("lookahead decoding"),
    "medusa": _not_yet("Medusa heads"),
    # Another model
    "weight_quantization": _no(_OTHER_MODEL),
    "distillation": _no(_OTHER_MODEL),
    "structured_pruning": _no(_OTHER_MODEL),
    "unstructured_pruning": _no(_OTHER_MODEL),
    "local_window_attention": _no(_OTHER_MODEL),
    "multi_query_attention": _no(_OTHER_MODEL),
    "grouped_query_attention": _no(_OTHER_MODEL),
    "cross_layer_kv_sharing": _no(_OTHER_MODEL),
    # More machines
    "replicas": _not_yet("replicas behind one address"),
    "pd_disaggregation": _not_yet("separate prefill and decode workers"),
    "tensor_parallelism": _not_yet("shards of one layer on several devices"),
    "pipeline_parallelism": _not_yet("layers spread over several devices"),
    "faster_hardware": _no("not a switch: it is advice to move the deployment"),
}
