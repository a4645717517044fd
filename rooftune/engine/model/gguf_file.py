"""A Llama-family GGUF as stored tensors with Hugging Face names and row order; nothing is dequantized."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from rooftune.engine.model.gguf_header import Header, TensorEntry, read_header, type_name
from rooftune.engine.model.gguf_vocabulary import tokenizer_from_gguf
from rooftune.engine.model.shape import ModelShape
from rooftune.engine.model.shape_reading import shape_from_gguf
from rooftune.engine.model.source import ModelSource, StoredModel, check_complete
from rooftune.errors import WrongInput
from rooftune.kernels.contracts import StorageFormat, StoredTensor

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_FORMATS: dict[str, StorageFormat] = {
    "F32": "f32", "F16": "f16", "BF16": "bf16", "Q4_0": "q4_0", "Q4_1": "q4_1", "Q8_0": "q8_0",
}  # fmt: skip
_WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_ROPE_FACTORS = "rope_freqs.weight"


def read_gguf(source: ModelSource) -> StoredModel:
    """Read the file at ``source.path``. Raises WrongInput in one line that names what is wrong with it."""
    try:
        header = read_header(source.path)
        return _read(source, header, source.path.name)
    except WrongInput as error:
        # Names in a damaged header can hold line breaks; the message stays one line.
        raise WrongInput(" ".join(str(error).split())) from error
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        # A flipped bit in a header can give a value another type; no reader below has to expect that.
        why = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise WrongInput(
            f"{source.path.name}: the metadata is damaged ({why}); get the file again"
        ) from error


def _read(source: ModelSource, header: Header, where: str) -> StoredModel:
    shape = shape_from_gguf(
        header.metadata,
        {name: entry.shape for name, entry in header.tensors.items()},
        _rope_factors(header, where),
        where,
    )
    tensors: dict[str, StoredTensor] = {}
    for entry in header.tensors.values():
        if entry.name != _ROPE_FACTORS:
            tensor = _stored(entry, header, shape, where)
            tensors[tensor.name] = tensor
    check_complete(shape, tensors, where)
    expected = {name for name, _ in shape.tensors()}
    if unknown := sorted(set(tensors) - expected):
        raise WrongInput(
            f"{where}: tensor '{unknown[0]}' is not part of a {shape.architecture} model that is supported"
        )
    return StoredModel(
        source=source,
        shape=shape,
        tensors=tensors,
        tokenizer=tokenizer_from_gguf(header.metadata, shape.vocabulary, where),
        chat_template=header.metadata.get("tokenizer.chat_template"),
        template_tokens=_template_tokens(header),
        license=header.metadata.get("general.license") or source.license,
    )


def _template_tokens(header: Header) -> dict[str, str]:
    tokens = header.metadata["tokenizer.ggml.tokens"]
    named = {name: header.metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos")}
    return {
        f"{name}_token": tokens[token]
        for name, token in named.items()
        if token is not None and token < len(tokens)
    }


def _rope_factors(header: Header, where: str) -> tuple[float, ...]:
    entry = header.tensors.get(_ROPE_FACTORS)
    if entry is None:
        return ()
    if type_name(entry.type) != "F32":
        raise WrongInput(f"{where}: tensor '{_ROPE_FACTORS}' is {type_name(entry.type)}; it must be F32")
    return tuple(float(value) for value in _raw(entry, header).view("<f4"))


def _raw(entry: TensorEntry, header: Header) -> Bytes:
    return header.data[entry.offset : entry.offset + entry.size]


def _stored(entry: TensorEntry, header: Header, shape: ModelShape, where: str) -> StoredTensor:
    kind = type_name(entry.type)
    if kind not in _FORMATS:
        raise WrongInput(
            f"{where}: tensor '{entry.name}' is {kind}, which is not supported; use a file of"
            f" {', '.join(_FORMATS)} tensors"
        )
    name = _hugging_face_name(entry.name, where)
    data = _raw(entry, header)
    if shape.architecture == "llama" and ".self_attn." in name:
        if ".q_proj." in name:
            data = rows_in_hugging_face_order(data, entry.shape[0], shape.heads)
        elif ".k_proj." in name:
            data = rows_in_hugging_face_order(data, entry.shape[0], shape.kv_heads)
    return StoredTensor(name, _FORMATS[kind], entry.shape, data)


def _hugging_face_name(name: str, where: str) -> str:
    if name in _WHOLE:
        return _WHOLE[name]
    match = _LAYER.fullmatch(name)
    if match is None or match[2] not in _IN_LAYER:
        raise WrongInput(f"{where}: tensor '{name}' is not part of a Llama-family model that is supported")
    return f"model.layers.{match[1]}.{_IN_LAYER[match[2]]}.{match[3]}"


def rows_in_hugging_face_order(data: Bytes, rows: int, heads: int) -> Bytes:
    """Undo the row order of q and k in GGUF architecture llama.

    Stored: rotary pairs lie next to each other, row (head, pair, half); Hugging Face: row (head, half, pair).
    Quantized blocks lie along a row, so whole rows move as they are.
    """
    if rows % (2 * heads):
        raise WrongInput(
            f"query or key matrix of {rows} rows does not divide into {heads} heads; the file is damaged"
        )
    order = np.arange(rows).reshape(heads, -1, 2).swapaxes(1, 2).ravel()
    return np.ascontiguousarray(data.reshape(rows, -1)[order]).reshape(-1)
