from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rooftune.engine.model.hugging_face import read_hugging_face
from rooftune.engine.model.source import ModelSource, StoredModel
from rooftune.errors import WrongInput
from rooftune.kernels.stored import dequantize
from tests.model.tiny import BOS, END, Tiny, write_hugging_face


def read(folder: Path) -> StoredModel:
    return read_hugging_face(ModelSource(folder.name, folder, "hugging_face"))


def refused(folder: Path) -> str:
    with pytest.raises(WrongInput) as caught:
        read(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("tied", [True, False])
def test_weights_come_back_exactly(tmp_path: Path, shards: int, tied: bool) -> None:
    tiny = Tiny(tied=tied)
    model = read(write_hugging_face(tmp_path / "m", tiny, shards=shards))
    weights = tiny.weights()
    assert set(model.tensors) == set(weights)
    assert ("lm_head.weight" in model.tensors) is not tied
    for name, value in weights.items():
        np.testing.assert_array_equal(dequantize(model.tensors[name]), value)
    assert model.already_quantized() is None


@pytest.mark.parametrize(("dtype", "format"), [("float16", "f16"), ("bfloat16", "bf16")])
def test_half_precision_stays_as_stored(tmp_path: Path, dtype: str, format: str) -> None:
    tiny = Tiny()
    model = read(write_hugging_face(tmp_path / "m", tiny, dtype=dtype))
    assert set(model.formats()) == {format}
    name = "model.layers.0.mlp.up_proj.weight"
    np.testing.assert_allclose(dequantize(model.tensors[name]), tiny.weights()[name], rtol=2**-8)


def test_a_copy_of_a_tied_head_is_left_alone(tmp_path: Path) -> None:
    folder = write_hugging_face(tmp_path / "m", Tiny(tied=False))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    assert "lm_head.weight" not in read(folder).tensors


def test_tokens_and_template(tmp_path: Path) -> None:
    folder = write_hugging_face(tmp_path / "m")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [END, BOS]}))
    model = read(folder)
    assert model.shape.eos == {END, BOS} and model.shape.bos == BOS
    assert model.chat_template and "im_start" in model.chat_template
    assert model.template_tokens["eos_token"] == "<|im_end|>"
    (folder / "chat_template.jinja").write_text("beside")
    assert read(folder).chat_template == "beside"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    folder = write_hugging_face(tmp_path / "m")
    (folder / name).unlink()
    assert name in refused(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_truncated_file_is_named(tmp_path: Path, name: str) -> None:
    folder = write_hugging_face(tmp_path / "m")
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: len(data) // 2])
    assert name in refused(folder)


def test_a_missing_tensor_and_a_wrong_shape_are_named(tmp_path: Path) -> None:
    folder = write_hugging_face(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    assert "model.layers.2." in refused(folder)
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 128}))
    assert "mlp.gate_proj.weight" in refused(folder)


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = write_hugging_face(
        tmp_path / "m", Tiny(vocabulary=200, extra_config={"bos_token_id": 1, "eos_token_id": 2})
    )
    assert "do not match" in refused(folder)


def test_a_shard_outside_the_folder_is_refused(tmp_path: Path) -> None:
    folder = write_hugging_face(tmp_path / "m", shards=2)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../other/model.safetensors"}}))
    assert "plain file names" in refused(folder)
