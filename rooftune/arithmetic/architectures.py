"""Known architectures: how each one's configuration is read into a :class:`ModelShape`.

The layouts are those of the models' published definitions (Hugging Face `config.json` semantics). An architecture
that is not in the table is refused by name: a count for the wrong layout would look as good as a right one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rooftune.arithmetic.fields import Fields
from rooftune.arithmetic.shape import Attention, FeedForward, Layer, ModelShape, Span
from rooftune.errors import WrongInput


@dataclass(frozen=True, slots=True)
class _Traits:
    """What sets a family apart from the plain Llama layout."""

    tied: bool = False
    """Default where the configuration does not say."""
    norms: int = 2
    """Vectors of length hidden per layer."""
    query_key_norm: str = "none"
    """none, head (one vector of head size each for q and k), all (over all heads)."""
    qkv_bias: bool = False
    sinks: bool = False


def _heads(f: Fields, traits: _Traits, span: Span = "full", reach: int = 0) -> Attention:
    """Multi-head, grouped-query or multi-query attention."""
    hidden = f.positive("hidden_size")
    heads = f.positive("num_attention_heads")
    groups = f.number("num_key_value_heads", default=heads) or heads
    size = f.number("head_dim", default=0) or hidden // heads
    return _heads_of(f, traits, hidden, heads, groups, size, size, span, reach)


def _heads_of(
    f: Fields,
    traits: _Traits,
    hidden: int,
    heads: int,
    groups: int,
    key_size: int,
    value_size: int,
    span: Span,
    reach: int,
    keys_are_values: bool = False,
) -> Attention:
    if heads % groups:
        raise WrongInput(
            f"model config: {heads} attention heads cannot share {groups} key-value heads evenly"
        )
    keys = groups * key_size
    values = groups * value_size
    matrix = (
        hidden * (heads * key_size + keys + (0 if keys_are_values else values)) + heads * value_size * hidden
    )
    vector = 0
    if traits.qkv_bias or f.flag("qkv_bias"):
        vector += heads * key_size + keys + values
    elif f.flag("attention_bias"):
        vector += heads * key_size + keys + values + hidden
    if traits.query_key_norm == "head":
        vector += 2 * key_size
    elif traits.query_key_norm == "all":
        vector += heads * key_size + keys
    if traits.sinks:
        vector += heads
    return Attention(
        matrix=matrix,
        vector=vector,
        heads=heads,
        key_size=key_size,
        value_size=value_size,
        cache_elements=keys + values,
        decode_key_size=key_size,
        decode_value_size=value_size,
        span=span,
        reach=reach,
    )


def _latent(f: Fields, indexed: bool) -> Attention:
    """Multi-head latent attention (DeepSeek-V2 and later), with the sparse indexer of V3.2 where ``indexed``."""
    hidden, heads = f.positive("hidden_size"), f.positive("num_attention_heads")
    rank, rope = f.positive("kv_lora_rank"), f.number("qk_rope_head_dim")
    plain, value = f.positive("qk_nope_head_dim"), f.positive("v_head_dim")
    query_rank = f.number("q_lora_rank", default=0)
    query_size = heads * (plain + rope)
    query = hidden * query_rank + query_rank * query_size if query_rank else hidden * query_size
    matrix = query + hidden * (rank + rope) + rank * heads * (plain + value) + heads * value * hidden
    vector = query_rank + rank
    index_matrix = index_heads = index_size = index_top = 0
    if indexed:
        index_heads, index_size = f.positive("index_n_heads"), f.positive("index_head_dim")
        index_top = f.positive("index_topk")
        index_matrix = query_rank * index_heads * index_size + hidden * index_size + hidden * index_heads
        vector += 2 * index_size
    return Attention(
        matrix=matrix + index_matrix,
        vector=vector,
        heads=heads,
        key_size=plain + rope,
        value_size=value,
        cache_elements=rank + rope + index_size,
        decode_key_size=rank + rope,
        decode_value_size=rank,
        index_matrix=index_matrix,
        index_heads=index_heads,
        index_size=index_size,
        index_top=index_top,
    )


def _gated(f: Fields, width: int) -> int:
    """Elements of gate, up and down of one gated feed-forward layer."""
    return 3 * f.positive("hidden_size") * width


def _dense(f: Fields) -> FeedForward:
    width = f.positive("intermediate_size")
    bias = 2 * width + f.positive("hidden_size") if f.flag("mlp_bias") else 0
    return FeedForward(dense=_gated(f, width), vector=bias)


def _mixture(
    f: Fields,
    experts: int,
    per_token: int,
    width: int,
    *,
    shared: int = 0,
    router_bias: bool = False,
    bias: bool = False,
) -> FeedForward:
    """``shared``: width of what every token uses beside its experts."""
    hidden = f.positive("hidden_size")
    return FeedForward(
        dense=hidden * experts + (_gated(f, shared) if shared else 0),
        vector=experts if router_bias else 0,
        experts=experts,
        experts_per_token=per_token,
        expert_matrix=_gated(f, width),
        expert_vector=2 * width + hidden if bias else 0,
    )


def _shape(f: Fields, traits: _Traits, layers: list[tuple[Attention, FeedForward]]) -> ModelShape:
    hidden = f.positive("hidden_size")
    return ModelShape(
        architecture=f.architecture,
        hidden=hidden,
        vocabulary=f.positive("vocab_size"),
        tied=f.flag("tie_word_embeddings", traits.tied),
        layers=tuple(Layer(attention, feed, traits.norms * hidden) for attention, feed in layers),
        final_vector=hidden,
        maximum_context=f.number("max_position_embeddings", default=0) or None,
    )


def _spans(f: Fields, sliding: Callable[[int], bool]) -> list[tuple[Span, int]]:
    """Each layer's span: ``layer_types`` where given, else the family's own rule ``sliding(layer)``."""
    count = f.positive("num_hidden_layers")
    window = f.number("sliding_window", default=0)
    kinds = f.items("layer_types")
    if kinds is not None and len(kinds) != count:
        raise WrongInput(
            f"model config: 'layer_types' names {len(kinds)} layers, 'num_hidden_layers' {count}"
        )
    chosen: list[tuple[Span, int]] = []
    for i in range(count):
        slides = kinds[i] == "sliding_attention" if kinds is not None else sliding(i)
        if kinds is not None and kinds[i] not in ("sliding_attention", "full_attention"):
            raise WrongInput(f"model config: layer type '{kinds[i]}' of {f.architecture} cannot be counted")
        chosen.append(("window", window) if slides and window else ("full", 0))
    return chosen


def _plain(traits: _Traits, sliding: Callable[[Fields, int], bool]) -> Callable[[Fields], ModelShape]:
    """Dense decoders in the Llama layout."""

    def read(f: Fields) -> ModelShape:
        feed = _dense(f)
        return _shape(f, traits, [(_heads(f, traits, *s), feed) for s in _spans(f, lambda i: sliding(f, i))])

    return read


def _mixtral(f: Fields) -> ModelShape:
    feed = _mixture(
        f, f.positive("num_local_experts"), f.positive("num_experts_per_tok"), f.positive("intermediate_size")
    )
    traits = _Traits()
    return _shape(f, traits, [(_heads(f, traits, *s), feed) for s in _spans(f, lambda i: True)])


def _qwen_moe(f: Fields) -> ModelShape:
    traits = _Traits(query_key_norm="head")
    sparse_step = f.number("decoder_sparse_step", default=1)
    dense_only = set(f.items("mlp_only_layers") or [])
    experts = f.positive("num_experts")
    moe = _mixture(f, experts, f.positive("num_experts_per_tok"), f.positive("moe_intermediate_size"))
    layers = []
    for i, span in enumerate(_spans(f, lambda i: f.flag("use_sliding_window"))):
        sparse = i not in dense_only and sparse_step > 0 and (i + 1) % sparse_step == 0
        layers.append((_heads(f, traits, *span), moe if sparse else _dense(f)))
    return _shape(f, traits, layers)


def _minimax(f: Fields) -> ModelShape:
    norm = "all" if f.flag("use_qk_norm") else "none"
    traits = _Traits(query_key_norm=norm)
    feed = _mixture(
        f,
        f.positive("num_local_experts"),
        f.positive("num_experts_per_tok"),
        f.positive("intermediate_size"),
        shared=f.number("shared_intermediate_size", default=0),
        router_bias=f.flag("use_routing_bias"),
    )
    return _shape(f, traits, [(_heads(f, traits), feed)] * f.positive("num_hidden_layers"))


def _gpt_oss(f: Fields) -> ModelShape:
    traits = _Traits(sinks=True)
    feed = _mixture(
        f,
        f.positive("num_local_experts"),
        f.positive("num_experts_per_tok", "experts_per_token"),
        f.positive("intermediate_size"),
        router_bias=True,
        bias=True,
    )
    return _shape(f, traits, [(_heads(f, traits, *s), feed) for s in _spans(f, lambda i: i % 2 == 0)])


def _llama4(f: Fields) -> ModelShape:
    """Three of four layers attend within chunks; every layer's expert stands beside a shared one."""
    traits = _Traits()
    width, chunk = f.positive("intermediate_size"), f.number("attention_chunk_size", default=0)
    step = f.number("interleave_moe_layer_step", default=1)
    moe = _mixture(f, f.positive("num_local_experts"), f.positive("num_experts_per_tok"), width, shared=width)
    flags = f.items("no_rope_layers")
    layers = []
    for i in range(f.positive("num_hidden_layers")):
        rotates = bool(flags[i]) if flags is not None else (i + 1) % 4 != 0
        span: tuple[Span, int] = ("chunk", chunk) if rotates and chunk else ("full", 0)
        dense = FeedForward(dense=_gated(f, f.number("intermediate_size_mlp", default=width)))
        layers.append((_heads(f, traits, *span), moe if step and (i + 1) % step == 0 else dense))
    return _shape(f, traits, layers)


def _deepseek(indexed: bool) -> Callable[[Fields], ModelShape]:
    def read(f: Fields) -> ModelShape:
        if f.number("moe_layer_freq", default=1) != 1:
            raise WrongInput(f"model config: 'moe_layer_freq' other than 1 is not known for {f.architecture}")
        attention = _latent(f, indexed)
        width = f.positive("moe_intermediate_size")
        moe = _mixture(
            f,
            f.positive("n_routed_experts"),
            f.positive("num_experts_per_tok"),
            width,
            shared=f.number("n_shared_experts", default=0) * width,
            router_bias=f.architecture != "deepseek_v2",
        )
        first = f.number("first_k_dense_replace", default=0)
        count = f.positive("num_hidden_layers")
        return _shape(f, _Traits(), [(attention, _dense(f) if i < first else moe) for i in range(count)])

    return read


def _mimo(f: Fields) -> ModelShape:
    """Full and window layers with their own head counts; keys wider than values."""
    hidden = f.positive("hidden_size")
    full = _heads_of(
        f,
        _Traits(sinks=f.flag("add_full_attention_sink_bias")),
        hidden,
        f.positive("num_attention_heads"),
        f.positive("num_key_value_heads"),
        f.positive("head_dim"),
        f.positive("v_head_dim"),
        "full",
        0,
    )
    window = _heads_of(
        f,
        _Traits(sinks=f.flag("add_swa_attention_sink_bias")),
        hidden,
        f.positive("swa_num_attention_heads"),
        f.positive("swa_num_key_value_heads"),
        f.positive("swa_head_dim"),
        f.positive("swa_v_head_dim"),
        "window",
        f.positive("sliding_window"),
    )
    moe = _mixture(
        f,
        f.positive("n_routed_experts"),
        f.positive("num_experts_per_tok"),
        f.positive("moe_intermediate_size"),
        router_bias=True,
    )
    pattern, sparse = f.items("hybrid_layer_pattern"), f.items("moe_layer_freq")
    if pattern is None or sparse is None:
        raise WrongInput("model config: 'hybrid_layer_pattern' and 'moe_layer_freq' must list the layers")
    layers = [(window if p else full, moe if s else _dense(f)) for p, s in zip(pattern, sparse, strict=True)]
    return _shape(f, _Traits(), layers)


def _gemma4(f: Fields) -> ModelShape:
    """Dense and expert feed-forward side by side; full layers with wider heads, whose values are their keys' projection
    (but normalised otherwise, so both are cached). Shared-KV layers and per-layer inputs are refused."""
    for name in ("num_kv_shared_layers", "hidden_size_per_layer_input"):
        if f.number(name, default=0):
            raise WrongInput(f"model config: gemma4 with '{name}' above 0 cannot be counted yet")
    hidden, heads = f.positive("hidden_size"), f.positive("num_attention_heads")
    traits = _Traits(tied=True, norms=4, query_key_norm="head")
    window = _heads(f, traits, "window", f.positive("sliding_window"))
    wide = f.number("global_head_dim", default=f.positive("head_dim"))
    groups = f.number("num_global_key_value_heads", default=f.positive("num_key_value_heads"))
    shares = f.flag("attention_k_eq_v")
    full = _heads_of(f, traits, hidden, heads, groups, wide, wide, "full", 0, keys_are_values=shares)
    feed = _dense(f)
    if f.flag("enable_moe_block"):
        feed = _mixture(
            f,
            f.positive("num_experts"),
            f.positive("top_k_experts", "num_experts_per_tok"),
            f.positive("moe_intermediate_size"),
            shared=f.positive("intermediate_size"),
        )
    kinds = _spans(f, lambda i: (i + 1) % 6 != 0)
    return _shape(f, traits, [(full if span == "full" else window, feed) for span, _ in kinds])


def _gemma_pattern(f: Fields, layer: int) -> bool:
    return (layer + 1) % f.number("sliding_window_pattern", "_sliding_window_pattern", default=6) != 0


def _qwen_window(f: Fields, layer: int) -> bool:
    return f.flag("use_sliding_window") and layer >= f.number("max_window_layers", default=0)


READERS: dict[str, Callable[[Fields], ModelShape]] = {
    "llama": _plain(_Traits(), lambda f, i: False),
    "mistral": _plain(_Traits(), lambda f, i: True),
    "qwen2": _plain(_Traits(qkv_bias=True), _qwen_window),
    "qwen3": _plain(_Traits(query_key_norm="head"), _qwen_window),
    "phi3": _plain(_Traits(), lambda f, i: True),
    "gemma": _plain(_Traits(tied=True), lambda f, i: False),
    "gemma2": _plain(_Traits(tied=True, norms=4), lambda f, i: i % 2 == 0),
    "gemma3_text": _plain(_Traits(tied=True, norms=4, query_key_norm="head"), _gemma_pattern),
    "gemma3": _plain(_Traits(tied=True, norms=4, query_key_norm="head"), _gemma_pattern),
    "gemma4": _gemma4,
    "gemma4_text": _gemma4,
    "mixtral": _mixtral,
    "qwen3_moe": _qwen_moe,
    "minimax_m2": _minimax,
    "gpt_oss": _gpt_oss,
    "llama4": _llama4,
    "llama4_text": _llama4,
    "deepseek_v2": _deepseek(indexed=False),
    "deepseek_v3": _deepseek(indexed=False),
    "kimi_k2": _deepseek(indexed=False),
    "deepseek_v32": _deepseek(indexed=True),
    "glm_moe_dsa": _deepseek(indexed=True),
    "mimo_v2_flash": _mimo,
}
"""Architecture (``model_type``) to its reader."""

REFUSED: dict[str, str] = {
    "qwen3_5": "its linear-attention layers keep a state instead of keys and values",
    "qwen3_5_moe": "its linear-attention layers keep a state instead of keys and values",
    "qwen3_next": "its linear-attention layers keep a state instead of keys and values",
    "nemotron_h": "its Mamba layers keep a state instead of keys and values",
    "mamba": "its Mamba layers keep a state instead of keys and values",
}
"""Architectures that are known and cannot be counted yet, with the reason."""


def model_shape(config: Mapping[str, Any] | ModelShape) -> ModelShape:
    """Read a Hugging Face-style configuration; WrongInput for one that is unknown or incomplete, by name."""
    if isinstance(config, ModelShape):
        return config
    fields = Fields(config)
    name = fields.architecture
    reader = READERS.get(name)
    if reader is None:
        why = REFUSED.get(name)
        if why is not None:
            raise WrongInput(f"the arithmetic of architecture '{name}' is not known to Rooftune: {why}")
        from rooftune.spec.nearest import nearest

        raise WrongInput(
            f"the arithmetic of architecture '{name}' is not known to Rooftune{nearest(name, READERS)}"
        )
    return reader(fields)
