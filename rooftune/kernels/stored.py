"""What a stored weight means in float32: the obvious reading of each storage format.

Block formats are GGUF's, along K, 32 values a block; ``d`` and ``m`` are float16, two values share a byte with the
first sixteen of a block in the low halves and the last sixteen in the high ones:

- q4_0, 18 bytes: d, 16 bytes; value = d * (q - 8)
- q4_1, 20 bytes: d, m, 16 bytes; value = d * q + m
- q8_0, 34 bytes: d, 32 signed bytes; value = d * q
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rooftune.errors import WrongInput
from rooftune.kernels.contracts import StorageFormat, StoredTensor

BLOCK = 32
"""Values of one block of a block format."""

BLOCK_BYTES: dict[StorageFormat, int] = {"q4_0": 18, "q4_1": 20, "q8_0": 34}
ELEMENT_BYTES: dict[StorageFormat, int] = {"f32": 4, "f16": 2, "bf16": 2}

Floats = np.ndarray[Any, np.dtype[np.float32]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def stored_bytes(format: StorageFormat, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor in a storage format; ``WrongInput`` for rows that are no whole number of blocks."""
    values = prod(shape)
    if format in ELEMENT_BYTES:
        return values * ELEMENT_BYTES[format]
    if format not in BLOCK_BYTES:
        known = ", ".join([*ELEMENT_BYTES, *BLOCK_BYTES])
        raise WrongInput(f"storage format {format!r} is not known; known are {known}")
    if shape[-1] % BLOCK:
        raise WrongInput(f"{format} needs rows of a multiple of {BLOCK} values, not {shape[-1]}")
    return values // BLOCK * BLOCK_BYTES[format]


def check(tensor: StoredTensor) -> None:
    """``WrongInput`` where the bytes of a tensor do not fit its shape and format."""
    wanted = stored_bytes(tensor.format, tensor.shape)
    if tensor.data.nbytes != wanted:
        raise WrongInput(
            f"tensor {tensor.name!r} has {tensor.data.nbytes} bytes; {tensor.format} {list(tensor.shape)} needs {wanted}"
        )


def dequantize(tensor: StoredTensor) -> Floats:
    """The values of a stored tensor, float32 in its shape; ``WrongInput`` where bytes and shape do not agree."""
    check(tensor)
    data: Bytes = np.ascontiguousarray(tensor.data).view(np.uint8).reshape(-1)
    if tensor.format == "f32":
        values = data.view("<f4").astype(np.float32)
    elif tensor.format == "f16":
        values = data.view("<f2").astype(np.float32)
    elif tensor.format == "bf16":
        values = (data.view("<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        values = _dequantize_blocks(data.reshape(-1, BLOCK_BYTES[tensor.format]), tensor.format)
    return values.reshape(tensor.shape)


def _dequantize_blocks(blocks: Bytes, format: StorageFormat) -> Floats:
    scale = _half(blocks[:, 0:2])
    if format == "q4_0":
        return scale * (_nibbles(blocks[:, 2:]) - np.float32(8))
    if format == "q4_1":
        return scale * _nibbles(blocks[:, 4:]) + _half(blocks[:, 2:4])
    return scale * blocks[:, 2:].view(np.int8).astype(np.float32)


def _half(pair: Bytes) -> Floats:
    """Float16 of two bytes a row -> float32 [rows, 1]."""
    return np.ascontiguousarray(pair).view("<f2").astype(np.float32)


def _nibbles(packed: Bytes) -> Floats:
    """Sixteen bytes a row -> thirty-two values of 0 to 15."""
    return np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32)
