"""The shape of a Llama-family model: sizes, rotary embedding, tokens that begin and end."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rooftune.errors import WrongInput

Architecture = Literal["llama", "mistral", "qwen2"]
SUPPORTED: tuple[Architecture, ...] = ("llama", "mistral", "qwen2")


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How rotary frequencies are stretched beyond the training context.

    linear: every frequency divided by ``factor``. llama3: long wavelengths divided by ``factor``, short ones
    kept, a ramp between (Llama 3.1). factors: one divisor per frequency, as GGUF stores the llama3 result.
    """

    kind: Literal["linear", "llama3", "factors"]
    factor: float = 1.0
    low_frequency_factor: float = 1.0
    high_frequency_factor: float = 4.0
    original_context: int = 8192
    factors: tuple[float, ...] = ()

    def apply(
        self, frequencies: np.ndarray[Any, np.dtype[np.float64]]
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Radians per position [D / 2] -> the same, scaled."""
        if self.kind == "linear":
            return frequencies / self.factor
        if self.kind == "factors":
            return frequencies / np.asarray(self.factors, dtype=np.float64)
        turns = self.original_context * frequencies / (2 * math.pi)
        keep = np.clip(
            (turns - self.low_frequency_factor) / (self.high_frequency_factor - self.low_frequency_factor),
            0,
            1,
        )
        return frequencies * (keep + (1 - keep) / self.factor)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Everything about a model but its weights. Sizes are counts of elements, not bytes."""

    architecture: Architecture
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    feed_forward: int
    vocabulary: int
    maximum_context: int
    rope_theta: float
    rope_scaling: RopeScaling | None
    norm_epsilon: float
    tied_embedding: bool
    attention_bias: bool
    """Bias on the query, key and value projections."""
    attention_output_bias: bool
    bos: int | None
    eos: frozenset[int]

    def __post_init__(self) -> None:
        for what in ("layers", "hidden", "heads", "kv_heads", "head_size", "feed_forward", "vocabulary",
                     "maximum_context"):  # fmt: skip
            if getattr(self, what) < 1:
                raise WrongInput(
                    f"model: {what.replace('_', ' ')} is {getattr(self, what)}; the file is damaged"
                )
        if not (0 < self.rope_theta < math.inf and 0 <= self.norm_epsilon < math.inf):
            raise WrongInput(
                f"model: rope theta {self.rope_theta} or norm epsilon {self.norm_epsilon} is out of range;"
                " the file is damaged"
            )
        for what, token in (("begin", self.bos), *(("end", token) for token in self.eos)):
            if token is not None and not 0 <= token < self.vocabulary:
                raise WrongInput(f"model: {what} token {token} is not in the vocabulary of {self.vocabulary}")
        factors = self.rope_scaling.factors if self.rope_scaling else ()
        if factors and (len(factors) != self.head_size // 2 or not all(0 < f < math.inf for f in factors)):
            raise WrongInput(f"model: {len(factors)} rope factors do not fit head size {self.head_size}")
        if self.heads % self.kv_heads:
            raise WrongInput(f"model: {self.heads} heads cannot share {self.kv_heads} KV heads evenly")
        if self.head_size % 2:
            raise WrongInput(f"model: head size {self.head_size} is odd; rotary embedding needs pairs")

    def frequencies(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Rotary frequencies, radians per position, [head_size / 2]: theta^(-2i/D), then scaled."""
        exponent = np.arange(0, self.head_size, 2, dtype=np.float64) / self.head_size
        plain = np.power(float(self.rope_theta), -exponent)
        scaled = self.rope_scaling.apply(plain) if self.rope_scaling else plain
        return scaled.astype(np.float32)

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Hugging Face name and shape of every tensor that the model must have."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        yield "model.embed_tokens.weight", (self.vocabulary, self.hidden)
        for layer in range(self.layers):
            prefix = f"model.layers.{layer}."
            yield prefix + "input_layernorm.weight", (self.hidden,)
            for name, rows in (("q", queries), ("k", keys), ("v", keys)):
                yield f"{prefix}self_attn.{name}_proj.weight", (rows, self.hidden)
                if self.attention_bias:
                    yield f"{prefix}self_attn.{name}_proj.bias", (rows,)
            yield prefix + "self_attn.o_proj.weight", (self.hidden, queries)
            if self.attention_output_bias:
                yield prefix + "self_attn.o_proj.bias", (self.hidden,)
            yield prefix + "post_attention_layernorm.weight", (self.hidden,)
            yield prefix + "mlp.gate_proj.weight", (self.feed_forward, self.hidden)
            yield prefix + "mlp.up_proj.weight", (self.feed_forward, self.hidden)
            yield prefix + "mlp.down_proj.weight", (self.hidden, self.feed_forward)
        yield "model.norm.weight", (self.hidden,)
        if not self.tied_embedding:
            yield "lm_head.weight", (self.vocabulary, self.hidden)

    def parameters(self) -> int:
        """Number of weights; a tied embedding counts once."""
        return sum(math.prod(shape) for _, shape in self.tensors())

    def kv_elements_per_token(self) -> int:
        """Keys and values of all layers that one token leaves in the cache."""
        return 2 * self.layers * self.kv_heads * self.head_size

    def hugging_face_config(self) -> dict[str, Any]:
        """The shape with the keys of a Hugging Face config.json."""
        classes = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM"}
        config: dict[str, Any] = {
            "architectures": [classes[self.architecture]],
            "model_type": self.architecture,
            "num_hidden_layers": self.layers,
            "hidden_size": self.hidden,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_size,
            "intermediate_size": self.feed_forward,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.maximum_context,
            "rope_theta": self.rope_theta,
            "rope_scaling": _scaling_to_hugging_face(self.rope_scaling),
            "rms_norm_eps": self.norm_epsilon,
            "tie_word_embeddings": self.tied_embedding,
            "hidden_act": "silu",
            "bos_token_id": self.bos,
            "eos_token_id": sorted(self.eos)[0] if len(self.eos) == 1 else sorted(self.eos) or None,
        }
        if self.architecture == "llama":
            config["attention_bias"] = self.attention_bias
            config["mlp_bias"] = False
        return config


def _scaling_to_hugging_face(scaling: RopeScaling | None) -> dict[str, Any] | None:
    if scaling is None:
        return None
    if scaling.kind == "linear":
        return {"rope_type": "linear", "factor": scaling.factor}
    if scaling.kind == "factors":
        return {"rope_type": "factors", "factors": list(scaling.factors)}
    return {
        "rope_type": "llama3",
        "factor": scaling.factor,
        "low_freq_factor": scaling.low_frequency_factor,
        "high_freq_factor": scaling.high_frequency_factor,
        "original_max_position_embeddings": scaling.original_context,
    }
