"""Stored formats against the reading of the gguf package."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from rooftune.errors import WrongInput
from rooftune.kernels.contracts import StorageFormat, StoredTensor
from rooftune.kernels.stored import dequantize

TYPES: dict[StorageFormat, gguf.GGMLQuantizationType] = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "bf16": gguf.GGMLQuantizationType.BF16,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
    "q4_1": gguf.GGMLQuantizationType.Q4_1,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
}


@pytest.mark.parametrize("format", list(TYPES))
def test_dequantize_reads_what_gguf_reads(format: StorageFormat) -> None:
    values = np.random.default_rng(3).normal(size=(7, 96)).astype(np.float32)
    values[2] *= 1000
    values[3] = 0
    data = gguf.quantize(values, TYPES[format])
    tensor = StoredTensor("w", format, (7, 96), data.view(np.uint8))
    read = dequantize(tensor)
    assert read.dtype == np.float32 and read.shape == (7, 96)
    np.testing.assert_array_equal(read, gguf.dequantize(data, TYPES[format]))


def test_vectors_have_one_dimension() -> None:
    values = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(dequantize(StoredTensor("g", "f32", (5,), values.view(np.uint8))), values)


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(WrongInput, match="has 8 bytes"):
        dequantize(StoredTensor("w", "q8_0", (1, 32), np.zeros(8, np.uint8)))
    with pytest.raises(WrongInput, match="multiple of 32"):
        dequantize(StoredTensor("w", "q4_0", (1, 33), np.zeros(18, np.uint8)))
    with pytest.raises(WrongInput, match="q5_k"):
        dequantize(StoredTensor("w", "q5_k", (1, 32), np.zeros(18, np.uint8)))  # type: ignore[arg-type]
