"""Tiny random Llama models in a folder or a GGUF, for tests of any room: no download, milliseconds to load.

    folder = write_hugging_face(tmp_path / "tiny")          # config.json, safetensors, tokenizer.json
    file = write_gguf(tmp_path / "tiny.gguf", format="Q4_1")

Both are byte-level: ids 0 to 255 are bytes, then a few merges, then the special tokens at the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rooftune.engine.model.tokenizer import CHARACTER_OF_BYTE

SPECIAL = ("<|bos|>", "<|im_start|>", "<|im_end|>")
MERGES = (("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n"), ("e", "r"), ("o", "n"), ("Ġ", "a"), ("a", "n"))
TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('unknown role ' + message['role']) }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def vocabulary() -> dict[str, int]:
    """Every token without the special ones, in id order."""
    tokens = [CHARACTER_OF_BYTE[byte] for byte in range(256)] + [left + right for left, right in MERGES]
    return {token: index for index, token in enumerate(tokens)}


BOS, START, END = (len(vocabulary()) + index for index in range(3))
VOCABULARY = len(vocabulary()) + len(SPECIAL)


@dataclass(frozen=True)
class Tiny:
    """Sizes of a tiny model; every matrix has a multiple of 32 columns, so that block formats fit."""

    layers: int = 2
    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_size: int = 16
    feed_forward: int = 96
    vocabulary: int = VOCABULARY
    maximum_context: int = 512
    rope_theta: float = 10000.0
    rope_scaling: dict[str, Any] | None = None
    tied: bool = True
    attention_bias: bool = False
    architecture: str = "llama"
    seed: int = 0
    extra_config: dict[str, Any] = field(default_factory=dict)

    def config(self) -> dict[str, Any]:
        return {
            "architectures": [{"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM",
                               "mistral": "MistralForCausalLM"}[self.architecture]],
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
            "rope_scaling": self.rope_scaling,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": self.tied,
            "attention_bias": self.attention_bias,
            "hidden_act": "silu",
            "bos_token_id": BOS,
            "eos_token_id": END,
            **self.extra_config,
        }  # fmt: skip

    def weights(self) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
        """Random float32 weights by Hugging Face name, large enough that the logits are far from flat."""
        random = np.random.default_rng(self.seed)
        return {name: _draw(random, name, shape) for name, shape in self._shapes()}

    def _shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        yield "model.embed_tokens.weight", (self.vocabulary, self.hidden)
        for layer in range(self.layers):
            at = f"model.layers.{layer}."
            yield at + "input_layernorm.weight", (self.hidden,)
            for name, rows in (("q", queries), ("k", keys), ("v", keys)):
                yield f"{at}self_attn.{name}_proj.weight", (rows, self.hidden)
                if self.attention_bias or self.architecture == "qwen2":
                    yield f"{at}self_attn.{name}_proj.bias", (rows,)
            yield at + "self_attn.o_proj.weight", (self.hidden, queries)
            if self.attention_bias and self.architecture == "llama":
                yield at + "self_attn.o_proj.bias", (self.hidden,)
            yield at + "post_attention_layernorm.weight", (self.hidden,)
            yield at + "mlp.gate_proj.weight", (self.feed_forward, self.hidden)
            yield at + "mlp.up_proj.weight", (self.feed_forward, self.hidden)
            yield at + "mlp.down_proj.weight", (self.hidden, self.feed_forward)
        yield "model.norm.weight", (self.hidden,)
        if not self.tied:
            yield "lm_head.weight", (self.vocabulary, self.hidden)


def _draw(random: np.random.Generator, name: str, shape: tuple[int, ...]) -> Any:
    if len(shape) == 1 and name.endswith("norm.weight"):
        return (1 + 0.1 * random.standard_normal(shape)).astype(np.float32)
    scale = 0.3 if len(shape) == 1 else 1.5 / np.sqrt(shape[-1])
    return (scale * random.standard_normal(shape)).astype(np.float32)


def write_tokenizer(folder: Path, adds_bos: bool = False) -> None:
    """tokenizer.json and tokenizer_config.json of the byte-level vocabulary."""
    import tokenizers
    from tokenizers import AddedToken, decoders, models, pre_tokenizers

    inner = tokenizers.Tokenizer(models.BPE(vocab=vocabulary(), merges=list(MERGES)))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    inner.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[0],
        "eos_token": SPECIAL[2],
        "add_bos_token": adds_bos,
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def write_hugging_face(
    folder: Path, tiny: Tiny | None = None, *, dtype: str = "float32", shards: int = 1, adds_bos: bool = False
) -> Path:
    """A complete folder. dtype: float32, float16 or bfloat16."""
    import torch
    from safetensors.torch import save_file

    tiny = tiny or Tiny()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(tiny.config()))
    write_tokenizer(folder, adds_bos)
    weights = {
        name: torch.from_numpy(value).to(getattr(torch, dtype)) for name, value in tiny.weights().items()
    }
    if shards == 1:
        save_file(weights, str(folder / "model.safetensors"), {"format": "pt"})
        return folder
    index: dict[str, str] = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = dict(list(weights.items())[shard::shards])
        save_file(part, str(folder / name), {"format": "pt"})
        index |= dict.fromkeys(part, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    return folder


def write_gguf(
    path: Path, tiny: Tiny | None = None, *, format: str = "Q4_1", embedding_format: str = "Q8_0",
    pre: str = "gpt-2", rope_factors: Any = None,
) -> Path:  # fmt: skip
    """The same weights as a GGUF of ``format`` (F32, F16, BF16, Q4_0, Q4_1, Q8_0), q and k in its own row order."""
    from gguf import GGMLQuantizationType, GGUFWriter, quants

    tiny = tiny or Tiny()
    writer = GGUFWriter(str(path), tiny.architecture)
    writer.add_block_count(tiny.layers)
    writer.add_context_length(tiny.maximum_context)
    writer.add_embedding_length(tiny.hidden)
    writer.add_feed_forward_length(tiny.feed_forward)
    writer.add_head_count(tiny.heads)
    writer.add_head_count_kv(tiny.kv_heads)
    writer.add_key_length(tiny.head_size)
    writer.add_value_length(tiny.head_size)
    writer.add_rope_dimension_count(tiny.head_size)
    writer.add_rope_freq_base(tiny.rope_theta)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(tiny.vocabulary)
    writer.add_license("apache-2.0")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    plain = list(vocabulary())
    padding = [f"<|unused{index}|>" for index in range(tiny.vocabulary - len(plain) - len(SPECIAL))]
    writer.add_token_list([*plain, *SPECIAL, *padding])
    writer.add_token_types([1] * len(plain) + [3] * (len(SPECIAL) + len(padding)))
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(END)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    if rope_factors is not None:
        writer.add_tensor("rope_freqs.weight", np.asarray(rope_factors, dtype=np.float32))
    for name, value in tiny.weights().items():
        stored = value
        if tiny.architecture == "llama" and (".q_proj." in name or ".k_proj." in name):
            heads = tiny.heads if ".q_proj." in name else tiny.kv_heads
            # Pairs (i, i + D/2) of Hugging Face become neighbours (2i, 2i + 1).
            split = value.reshape(heads, 2, value.shape[0] // heads // 2, *value.shape[1:])
            stored = np.ascontiguousarray(split.swapaxes(1, 2).reshape(value.shape))
        kind = "F32" if value.ndim == 1 else embedding_format if "embed_tokens" in name else format
        quantized = GGMLQuantizationType[kind]
        writer.add_tensor(_gguf_name(name), quants.quantize(stored, quantized), raw_dtype=quantized)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _gguf_name(name: str) -> str:
    whole = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in whole:
        return whole[name]
    for ours, theirs in (
        ("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"), ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"), ("model.layers.", "blk."),
    ):  # fmt: skip
        name = name.replace(ours, theirs)
    return name
