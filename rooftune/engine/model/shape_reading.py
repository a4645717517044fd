"""The shape of a model as its file states it: a Hugging Face config.json or GGUF metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooftune.engine.model.shape import SUPPORTED, ModelShape, RopeScaling
from rooftune.errors import WrongInput


def shape_from_hugging_face(config: Mapping[str, Any], where: str, eos: frozenset[int]) -> ModelShape:
    """Shape from a parsed config.json. ``where`` names the file in errors; ``eos`` adds to the config's own."""
    architecture = config.get("model_type")
    if architecture not in SUPPORTED:
        raise WrongInput(
            f"{where}: architecture '{architecture}' is not supported; use one of {', '.join(SUPPORTED)}"
        )

    def need(key: str) -> Any:
        if config.get(key) is None:
            raise WrongInput(f"{where}: '{key}' is missing; copy the model's complete config.json")
        return config[key]

    activation = config.get("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise WrongInput(f"{where}: activation '{activation}' is not supported; only silu is")
    if config.get("mlp_bias"):
        raise WrongInput(
            f"{where}: mlp_bias is not supported; use a model without biases in its feed-forward layers"
        )
    if config.get("quantization_config"):
        method = config["quantization_config"].get("quant_method", "unknown")
        raise WrongInput(
            f"{where}: quantized safetensors ('{method}') are not supported; use float weights or a GGUF"
        )
    rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    heads, hidden = int(need("num_attention_heads")), int(need("hidden_size"))
    kv_heads = config.get("num_key_value_heads")
    context = int(need("max_position_embeddings"))
    # A window of w keys changes nothing while no token has more than w keys before it, so the context ends there.
    windowed = architecture == "mistral" or config.get("use_sliding_window", False)
    if windowed and config.get("sliding_window"):
        context = min(context, int(config["sliding_window"]))
    qwen = architecture == "qwen2"
    stated = config.get("eos_token_id")
    ends = set() if stated is None else set(stated) if isinstance(stated, list) else {stated}
    theta = rope.get("rope_theta", config.get("rope_theta"))
    return ModelShape(
        architecture=architecture,
        layers=int(need("num_hidden_layers")),
        hidden=hidden,
        heads=heads,
        kv_heads=int(kv_heads) if kv_heads is not None else heads,
        head_size=int(config.get("head_dim") or hidden // heads),
        feed_forward=int(need("intermediate_size")),
        vocabulary=int(need("vocab_size")),
        maximum_context=context,
        rope_theta=float(theta if theta is not None else 10000.0),
        rope_scaling=_scaling_from_hugging_face(rope, context, where),
        norm_epsilon=float(config.get("rms_norm_eps", 1e-6)),
        tied_embedding=bool(config.get("tie_word_embeddings", False)),
        attention_bias=True if qwen else bool(config.get("attention_bias", False)),
        attention_output_bias=False if qwen else bool(config.get("attention_bias", False)),
        bos=config.get("bos_token_id"),
        eos=frozenset(int(token) for token in ends) | eos,
    )


def _scaling_from_hugging_face(rope: Mapping[str, Any], context: int, where: str) -> RopeScaling | None:
    kind = rope.get("rope_type", rope.get("type", "default"))
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise WrongInput(
            f"{where}: partial rotary embedding is not supported; use a model that rotates whole heads"
        )
    try:
        if kind == "default":
            return None
        if kind == "linear":
            return RopeScaling("linear", factor=float(rope["factor"]))
        if kind == "llama3":
            return RopeScaling(
                "llama3",
                factor=float(rope["factor"]),
                low_frequency_factor=float(rope["low_freq_factor"]),
                high_frequency_factor=float(rope["high_freq_factor"]),
                original_context=int(rope.get("original_max_position_embeddings", context)),
            )
    except (KeyError, TypeError, ValueError) as error:
        raise WrongInput(f"{where}: rope scaling '{kind}' lacks a usable {error}") from error
    raise WrongInput(f"{where}: rope scaling '{kind}' is not supported; supported are linear and llama3")


def shape_from_gguf(
    metadata: Mapping[str, Any],
    tensor_shapes: Mapping[str, tuple[int, ...]],
    rope_factors: tuple[float, ...],
    where: str,
) -> ModelShape:
    """Shape from GGUF metadata and tensor shapes (rows first); ``rope_factors`` is the file's rope_freqs table."""
    architecture = metadata.get("general.architecture")
    if architecture not in ("llama", "qwen2"):
        raise WrongInput(
            f"{where}: GGUF architecture '{architecture}' is not supported; use a llama or qwen2 file"
        )

    def field(key: str, default: Any = None) -> Any:
        value = metadata.get(f"{architecture}.{key}", default)
        if value is None:
            raise WrongInput(f"{where}: metadata '{architecture}.{key}' is missing; convert the model again")
        return value

    if int(field("expert_count", 0)) > 0:
        raise WrongInput(
            f"{where}: mixture-of-experts models are not supported; use a dense Llama-family model"
        )
    heads, hidden = int(field("attention.head_count")), int(field("embedding_length"))
    head_size = int(field("attention.key_length", hidden // max(heads, 1)))
    if int(field("attention.value_length", head_size)) != head_size:
        raise WrongInput(f"{where}: key and value head sizes differ, which is not supported")
    if int(field("rope.dimension_count", head_size)) != head_size:
        raise WrongInput(
            f"{where}: partial rotary embedding is not supported; use a model that rotates whole heads"
        )
    kind = field("rope.scaling.type", "linear" if f"{architecture}.rope.scale_linear" in metadata else "none")
    factor = float(field("rope.scaling.factor", field("rope.scale_linear", 0.0)))
    if kind not in ("none", "linear"):
        raise WrongInput(f"{where}: rope scaling '{kind}' is not supported; supported are linear and llama3")
    scaling: RopeScaling | None = None
    if rope_factors:
        scaling = RopeScaling("factors", factors=rope_factors)
    elif kind == "linear" and factor not in (0.0, 1.0):
        scaling = RopeScaling("linear", factor=factor)
    if "token_embd.weight" not in tensor_shapes:
        raise WrongInput(f"{where}: tensor 'token_embd.weight' is missing; the file holds no complete model")
    bos = metadata.get("tokenizer.ggml.bos_token_id")
    ends = (metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom"))
    return ModelShape(
        architecture=architecture,
        layers=int(field("block_count")),
        hidden=hidden,
        heads=heads,
        kv_heads=int(field("attention.head_count_kv", heads)),
        head_size=head_size,
        feed_forward=int(field("feed_forward_length")),
        vocabulary=tensor_shapes["token_embd.weight"][0],
        maximum_context=int(field("context_length")),
        rope_theta=float(field("rope.freq_base", 10000.0)),
        rope_scaling=scaling,
        norm_epsilon=float(field("attention.layer_norm_rms_epsilon")),
        tied_embedding="output.weight" not in tensor_shapes,
        attention_bias="blk.0.attn_q.bias" in tensor_shapes,
        attention_output_bias="blk.0.attn_output.bias" in tensor_shapes,
        bos=None if bos is None else int(bos),
        eos=frozenset(int(token) for token in ends if token is not None),
    )
