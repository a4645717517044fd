from __future__ import annotations

import numpy as np
import pytest

from rooftune.engine.model.shape import ModelShape, RopeScaling
from rooftune.engine.model.shape_reading import shape_from_gguf, shape_from_hugging_face
from rooftune.errors import WrongInput
from tests.model.tiny import Tiny

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def shape(**changes: object) -> ModelShape:
    return shape_from_hugging_face({**Tiny().config(), **changes}, "config.json", frozenset())


@pytest.mark.parametrize(
    "scaling", [None, {"rope_type": "linear", "factor": 4.0}, {"type": "linear", "factor": 2.5}, LLAMA3]
)
@pytest.mark.parametrize("head_size", [16, 64, 128])
def test_frequencies_are_transformers_own(scaling: dict[str, object] | None, head_size: int) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = {
        **Tiny().config(),
        "rope_scaling": scaling and dict(scaling),
        "head_dim": head_size,
        "rope_theta": 5e5,
    }
    theirs = LlamaRotaryEmbedding(LlamaConfig(**config)).inv_freq.numpy()
    ours = shape_from_hugging_face(config, "config.json", frozenset()).frequencies()
    np.testing.assert_allclose(ours, theirs, rtol=2e-6)


def test_newer_configs_keep_the_rope_in_one_place() -> None:
    config = Tiny().config()
    del config["rope_theta"], config["rope_scaling"]
    config["rope_parameters"] = {"rope_theta": 777.0, **LLAMA3}
    got = shape_from_hugging_face(config, "config.json", frozenset())
    assert got.rope_theta == 777.0
    assert got.rope_scaling == RopeScaling("llama3", 8.0, 1.0, 4.0, 64)


@pytest.mark.parametrize("scaling", [None, {"rope_type": "linear", "factor": 4.0}, LLAMA3])
@pytest.mark.parametrize("architecture", ["llama", "mistral", "qwen2"])
def test_config_round_trip(scaling: dict[str, object] | None, architecture: str) -> None:
    first = shape(rope_scaling=scaling, model_type=architecture, eos_token_id=[3, 9])
    assert shape_from_hugging_face(first.hugging_face_config(), "again", frozenset()) == first


def test_parameter_count_is_transformers_own() -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    for tied in (True, False):
        tiny = Tiny(tied=tied, attention_bias=True)
        config = AutoConfig.for_model(**tiny.config())
        theirs = sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters())
        ours = shape_from_hugging_face(tiny.config(), "config.json", frozenset()).parameters()
        assert ours == theirs


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": "mamba"}, "mamba"),
        ({"model_type": None}, "None"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"quantization_config": {"quant_method": "awq"}}, "awq"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "yarn"),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial rotary"),
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_key_value_heads": 3}, "KV heads"),
        ({"head_dim": 15}, "odd"),
        ({"vocab_size": 0}, "vocabulary"),
        ({"bos_token_id": 267}, "begin token 267"),
        ({"eos_token_id": [3, -1]}, "end token -1"),
        ({"rope_theta": 0.0}, "rope theta"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(change: dict[str, object], named: str) -> None:
    with pytest.raises(WrongInput, match=named):
        shape(**change)


def test_a_sliding_window_bounds_the_context() -> None:
    assert shape(model_type="mistral", sliding_window=100).maximum_context == 100
    assert shape(model_type="mistral", sliding_window=None).maximum_context == 512
    assert shape(model_type="qwen2", sliding_window=100, use_sliding_window=False).maximum_context == 512
    assert shape(model_type="qwen2", sliding_window=100, use_sliding_window=True).maximum_context == 100


def gguf_metadata(**changes: object) -> dict[str, object]:
    values = {
        "block_count": 2, "context_length": 512, "embedding_length": 64, "feed_forward_length": 96,
        "attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-5,
    }  # fmt: skip
    return {"general.architecture": "llama", **{f"llama.{k}": v for k, v in values.items()}, **changes}


TENSORS = {"token_embd.weight": (267, 64)}


def test_gguf_head_size_follows_from_hidden_and_heads() -> None:
    got = shape_from_gguf(gguf_metadata(), TENSORS, (), "m.gguf")
    assert (got.head_size, got.vocabulary, got.tied_embedding, got.rope_theta) == (16, 267, True, 10000.0)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"general.architecture": "gemma3"}, "gemma3"),
        ({"general.architecture": None}, "None"),
        ({"llama.expert_count": 8}, "experts"),
        ({"llama.rope.scaling.type": "yarn"}, "yarn"),
        ({"llama.rope.dimension_count": 8}, "partial rotary"),
        ({"llama.attention.value_length": 8}, "value head"),
        ({"llama.block_count": None}, "block_count"),
    ],
)
def test_gguf_refusals_by_name(change: dict[str, object], named: str) -> None:
    with pytest.raises(WrongInput, match=named):
        shape_from_gguf(gguf_metadata(**change), TENSORS, (), "m.gguf")


def test_gguf_rope_factors_must_fit_the_heads() -> None:
    with pytest.raises(WrongInput, match="rope factors"):
        shape_from_gguf(gguf_metadata(), TENSORS, (1.0,) * 7, "m.gguf")
    with pytest.raises(WrongInput, match="rope factors"):
        shape_from_gguf(gguf_metadata(), TENSORS, (0.0,) * 8, "m.gguf")


def test_gguf_linear_scaling() -> None:
    got = shape_from_gguf(
        gguf_metadata(**{"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}),
        TENSORS,
        (),
        "m",
    )
    plain = shape_from_gguf(gguf_metadata(), TENSORS, (), "m")
    np.testing.assert_allclose(got.frequencies() * 4, plain.frequencies(), rtol=1e-6)
