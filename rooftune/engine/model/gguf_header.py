"""The header of a GGUF file, read with every length checked against the file's size.

The library's reader walks arrays element by element in Python (seconds for a vocabulary) and can loop without
end on a damaged count, so the header is read here; block sizes and type names still come from the library.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rooftune.errors import WrongInput

MAGIC = b"GGUF"
_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """A tensor as the header lists it: shape with rows first, ggml type number, absolute byte offset and size."""

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Header:
    """Metadata and tensor list of one file; ``data`` is the whole file as a read-only memory map."""

    metadata: dict[str, Any]
    tensors: dict[str, TensorEntry]
    data: np.ndarray[Any, np.dtype[np.uint8]]


class _Cursor:
    """Reads little-endian values from bytes and refuses to step over the end."""

    def __init__(self, data: memoryview, where: str) -> None:
        self.data, self.where, self.at = data, where, 0

    def take(self, size: int) -> memoryview:
        if size > len(self.data) - self.at:
            raise WrongInput(
                f"{self.where}: the file ends inside its header; it is truncated or damaged, get it again"
            )
        piece = self.data[self.at : self.at + size]
        self.at += size
        return piece

    def number(self, code: str) -> Any:
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def text(self) -> str:
        return bytes(self.take(self.number("<Q"))).decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            inner, count = self.number("<I"), self.number("<Q")
            if inner == _STRING:
                if count > len(self.data):
                    raise WrongInput(
                        f"{self.where}: an array of {count} strings cannot fit; the file is damaged"
                    )
                return [self.text() for _ in range(count)]
            if inner not in _SCALARS:
                raise WrongInput(f"{self.where}: metadata array of unknown type {inner}; the file is damaged")
            code = _SCALARS[inner]
            return np.frombuffer(self.take(count * struct.calcsize(code)), dtype=code).tolist()
        if kind not in _SCALARS:
            raise WrongInput(f"{self.where}: metadata value of unknown type {kind}; the file is damaged")
        return self.number(_SCALARS[kind])


def read_header(path: Path) -> Header:
    """Read and check the header. Raises WrongInput in one line for anything that is not a whole GGUF file."""
    where = path.name
    try:
        data = np.memmap(path, mode="r", dtype=np.uint8)
    except ValueError as error:
        raise WrongInput(f"{where}: the file is empty; get it again") from error
    except OSError as error:
        raise WrongInput(f"{path}: cannot be read ({error.strerror})") from error
    cursor = _Cursor(data.data, where)
    if bytes(data[:4]) != MAGIC:
        raise WrongInput(f"{where}: not a GGUF file (it does not begin with 'GGUF')")
    cursor.at = 4
    version = cursor.number("<I")
    if version not in (2, 3):
        raise WrongInput(
            f"{where}: GGUF version {version} is not supported (2 and 3 are); convert the model again"
        )
    tensor_count, value_count = cursor.number("<Q"), cursor.number("<Q")
    metadata: dict[str, Any] = {}
    for _ in range(value_count):
        key = cursor.text()
        metadata[key] = cursor.value(cursor.number("<I"))
    tensors: dict[str, TensorEntry] = {}
    for _ in range(tensor_count):
        entry = _tensor(cursor)
        if entry.name in tensors:
            raise WrongInput(f"{where}: tensor '{entry.name}' is listed twice; the file is damaged")
        tensors[entry.name] = entry
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise WrongInput(f"{where}: alignment {alignment} is not a power of two; the file is damaged")
    start = -(-cursor.at // alignment) * alignment
    placed = {
        name: TensorEntry(entry.name, entry.shape, entry.type, start + entry.offset, entry.size)
        for name, entry in tensors.items()
    }
    for entry in placed.values():
        if entry.offset + entry.size > len(data):
            raise WrongInput(
                f"{where}: truncated: tensor '{entry.name}' ends at byte {entry.offset + entry.size},"
                f" the file at {len(data)}; get the file again"
            )
    return Header(metadata, placed, data)


def _tensor(cursor: _Cursor) -> TensorEntry:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    name = cursor.text()
    dimensions = cursor.number("<I")
    if not 1 <= dimensions <= 4:
        raise WrongInput(
            f"{cursor.where}: tensor '{name[:60]}' has {dimensions} dimensions; the file is damaged"
        )
    fastest_first = [cursor.number("<Q") for _ in range(dimensions)]
    kind, offset = cursor.number("<I"), cursor.number("<Q")
    try:
        block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    except (ValueError, KeyError) as error:
        raise WrongInput(
            f"{cursor.where}: tensor '{name[:60]}' has unknown type {kind}; the file is damaged"
        ) from error
    if fastest_first[0] % block:
        raise WrongInput(
            f"{cursor.where}: tensor '{name[:60]}' has rows of {fastest_first[0]}, not a multiple of {block};"
            " the file is damaged"
        )
    size = math.prod(fastest_first) // block * block_bytes
    return TensorEntry(name, tuple(reversed(fastest_first)), kind, offset, size)


def type_name(kind: int) -> str:
    """The ggml name of a tensor type number, such as Q4_1."""
    from gguf.constants import GGMLQuantizationType

    return str(GGMLQuantizationType(kind).name)
