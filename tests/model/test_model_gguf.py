from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooftune.engine.model.gguf_file import read_gguf, rows_in_hugging_face_order
from rooftune.engine.model.gguf_header import read_header
from rooftune.engine.model.source import ModelSource, StoredModel
from rooftune.errors import WrongInput
from rooftune.kernels.stored import dequantize
from tests.model.tiny import Tiny, write_gguf


def read(path: Path) -> StoredModel:
    return read_gguf(ModelSource(path.stem, path, "gguf"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


def test_header_agrees_with_the_library(whole: Path) -> None:
    from gguf import GGUFReader

    theirs, ours = GGUFReader(whole), read_header(whole)
    for name, field in theirs.fields.items():
        if not name.startswith("GGUF."):
            assert ours.metadata[name] == field.contents(), name
    assert list(ours.tensors) == [tensor.name for tensor in theirs.tensors]
    for tensor in theirs.tensors:
        entry = ours.tensors[tensor.name]
        assert entry.offset == tensor.data_offset
        assert entry.size == tensor.n_bytes
        assert entry.shape == tuple(reversed(tensor.shape.tolist()))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("attention_bias", [True, False])
def test_float_weights_come_back_exactly_in_hugging_face_order(
    tmp_path: Path, tied: bool, attention_bias: bool
) -> None:
    tiny = Tiny(tied=tied, attention_bias=attention_bias, kv_heads=1)
    model = read(write_gguf(tmp_path / "t.gguf", tiny, format="F32", embedding_format="F32"))
    weights = tiny.weights()
    assert set(model.tensors) == set(weights)
    for name, value in weights.items():
        np.testing.assert_array_equal(dequantize(model.tensors[name]), value, err_msg=name)
    assert model.shape.tied_embedding is tied


@pytest.mark.parametrize("format", ["Q4_0", "Q4_1", "Q8_0", "F16", "BF16"])
def test_reordering_moves_quantized_rows_whole(tmp_path: Path, format: str) -> None:
    """Quantizing works along a row, so reordering rows and quantizing must commute to the bit."""
    from gguf import GGMLQuantizationType, quants

    tiny = Tiny()
    model = read(write_gguf(tmp_path / "t.gguf", tiny, format=format))
    for name, value in tiny.weights().items():
        if ".layers." in name and value.ndim == 2:
            kind = GGMLQuantizationType[format]
            expected = quants.dequantize(quants.quantize(value, kind), kind)
            np.testing.assert_array_equal(dequantize(model.tensors[name]), expected, err_msg=name)
            assert model.tensors[name].format == format.lower()


def test_qwen2_is_not_permuted(tmp_path: Path) -> None:
    tiny = Tiny(architecture="qwen2")
    model = read(write_gguf(tmp_path / "q.gguf", tiny, format="F32"))
    name = "model.layers.0.self_attn.q_proj.weight"
    np.testing.assert_array_equal(dequantize(model.tensors[name]), tiny.weights()[name])
    assert model.shape.attention_bias and not model.shape.attention_output_bias


@given(heads=st.integers(1, 5), pairs=st.integers(1, 9))
def test_row_order_is_a_permutation_that_pairs_halves(heads: int, pairs: int) -> None:
    rows = heads * pairs * 2
    order = rows_in_hugging_face_order(np.arange(rows, dtype=np.uint8), rows, heads)
    assert sorted(order.tolist()) == list(range(rows))
    by_head = order.reshape(heads, 2, pairs).astype(int)
    # A rotary pair (i, i + D/2) of Hugging Face lies side by side in the file.
    assert (by_head[:, 1] - by_head[:, 0] == 1).all()


def test_rope_factors_become_scaling(tmp_path: Path) -> None:
    factors = np.linspace(1, 8, 8)
    scaled = read(write_gguf(tmp_path / "a.gguf", rope_factors=factors)).shape
    plain = read(write_gguf(tmp_path / "b.gguf")).shape
    np.testing.assert_allclose(scaled.frequencies() * factors, plain.frequencies(), rtol=1e-6)


def test_facts_of_the_file(whole: Path) -> None:
    model = read(whole)
    assert model.already_quantized() == "Q4_1"
    assert model.formats() == {"q8_0": 1, "q4_1": 14, "f32": 5}
    assert model.license == "apache-2.0"
    assert model.template_tokens == {"bos_token": "<|bos|>", "eos_token": "<|im_end|>"}


# --- damaged files ---------------------------------------------------------------------------------------------


def refused(path: Path) -> str:
    with pytest.raises(WrongInput) as caught:
        read(path)
    line = str(caught.value)
    assert "\n" not in line and path.name in line
    return line


def test_every_truncation_is_refused(whole: Path, tmp_path: Path) -> None:
    data = whole.read_bytes()
    cut = tmp_path / "cut.gguf"
    header = read_header(whole)
    first = min(entry.offset for entry in header.tensors.values())
    ends = [0, 1, 4, 8, 23, *range(24, first, 997), first, first + 1, len(data) // 2, len(data) - 33]
    for end in ends:
        cut.write_bytes(data[:end])
        refused(cut)


def test_truncation_names_the_tensor_and_the_sizes(whole: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole.read_bytes()[:-64])
    assert "truncated" in refused(cut)


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_damaged_headers_never_raise_anything_else(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(whole.read_bytes())
    first = min(entry.offset for entry in read_header(whole).tensors.values())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, first - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(content)
    try:
        read(path)
    except WrongInput as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("key", ["llama.block_count", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.tokens"])
def test_metadata_of_another_type_is_one_line(whole: Path, tmp_path: Path, key: str) -> None:
    content = bytearray(whole.read_bytes())
    at = content.index(key.encode()) + len(key)
    name = key.encode()
    content[at : at + 4] = struct.pack("<I", 8)  # now a string, of whatever length follows
    path = tmp_path / "typed.gguf"
    path.write_bytes(content)
    assert name in content
    refused(path)


def test_a_merge_without_a_pair_is_named(whole: Path, tmp_path: Path) -> None:
    old = struct.pack("<Q", 4) + b"th e"
    assert "merge" in refused(renamed(whole, tmp_path / "m.gguf", old, struct.pack("<Q", 4) + b"the_"))


def test_a_huge_array_count_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "huge.gguf"
    key = b"some.key"
    path.write_bytes(
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", len(key)) + key
        + struct.pack("<IIQ", 9, 4, 2**60)
    )  # fmt: skip
    assert "truncated" in refused(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "picture.gguf"
    path.write_bytes(b"\x89PNG" + bytes(100))
    assert "not a GGUF file" in refused(path)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 1, 0, 0))
    assert "version 1" in refused(path)
    assert "cannot be read" in refused(tmp_path / "none.gguf")


def renamed(whole: Path, path: Path, old: bytes, new: bytes) -> Path:
    """A copy with one name changed in place, same length."""
    assert len(old) == len(new) and whole.read_bytes().count(old) == 1
    path.write_bytes(whole.read_bytes().replace(old, new))
    return path


def test_a_missing_tensor_is_named(whole: Path, tmp_path: Path) -> None:
    line = refused(renamed(whole, tmp_path / "n.gguf", b"blk.1.ffn_up.", b"blk.9.ffn_up."))
    assert "layers.1.mlp.up_proj.weight" in line


def test_an_unknown_tensor_is_named(whole: Path, tmp_path: Path) -> None:
    assert "ffn_uq" in refused(renamed(whole, tmp_path / "u.gguf", b"blk.1.ffn_up.", b"blk.1.ffn_uq."))


def test_an_unsupported_type_is_named(tmp_path: Path) -> None:
    line = refused(write_gguf(tmp_path / "q5.gguf", format="Q5_0"))
    assert "Q5_0" in line and "Q4_1" in line


def test_other_tokenizers_are_refused_by_name(tmp_path: Path) -> None:
    assert "'tekken'" in refused(write_gguf(tmp_path / "t.gguf", pre="tekken"))
