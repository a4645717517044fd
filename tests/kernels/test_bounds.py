"""No kernel touches memory outside its operands: each operand ends where a page begins that may not be touched."""

from __future__ import annotations

import ctypes
import mmap
import sys

import pytest
import torch
from kernel_helpers import random_cache, random_plan, stored

from rooftune.kernels import native
from rooftune.kernels.native_cpu import PackedWeight, attention_arguments

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="protects pages by Linux's mprotect")

PAGE = mmap.PAGESIZE


class Guarded:
    """Copies of tensors that end at a protected page; an access behind one ends the process with a fault."""

    def __init__(self) -> None:
        self._maps: list[tuple[mmap.mmap, int]] = []
        self._libc = ctypes.CDLL(None, use_errno=True)

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        size = tensor.numel() * tensor.element_size()
        room = -(-size // PAGE) * PAGE
        memory = mmap.mmap(-1, room + PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        assert self._libc.mprotect(ctypes.c_void_p(start + room), PAGE, 0) == 0
        self._maps.append((memory, start + room))
        held = torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=room - size)
        return held.view(tensor.shape).copy_(tensor)

    def empty(self, *shape: int) -> torch.Tensor:
        return self.copy(torch.zeros(shape))

    def release(self) -> None:
        for _, page in self._maps:
            assert self._libc.mprotect(ctypes.c_void_p(page), PAGE, mmap.PROT_READ | mmap.PROT_WRITE) == 0


@pytest.fixture
def guarded() -> Guarded:
    guard = Guarded()
    yield guard  # type: ignore[misc]
    guard.release()


@pytest.mark.parametrize("rows", [1, 2, 5, 7, 14])
@pytest.mark.parametrize("format", ["f32", "q4_0", "q4_1", "q8_0"])
def test_linear_and_embedding(guarded: Guarded, format: str, rows: int) -> None:
    module = native.extension()
    context = module.Context(2)
    for n, k in ((1, 32), (13, 96), (24, 64)):
        weight = PackedWeight(stored(format, n, k))  # type: ignore[arg-type]
        x, out = guarded.copy(torch.randn(rows, k)), guarded.empty(rows, n)
        module.linear(context, x.data_ptr(), rows, weight.matrix, out.data_ptr())
        tokens, picked = guarded.copy(torch.full((rows,), n - 1)), guarded.empty(rows, k)
        module.embedding(weight.matrix, tokens.data_ptr(), rows, picked.data_ptr())


@pytest.mark.parametrize("size", [1, 7, 8, 15, 33])
def test_elementwise(guarded: Guarded, size: int) -> None:
    module = native.extension()
    context = module.Context(2)
    x, y, gain = (guarded.copy(torch.randn(3, size)) for _ in range(3))
    out = guarded.empty(3, size)
    module.rms_norm(context, x.data_ptr(), gain.data_ptr(), 1e-5, 3, size, out.data_ptr())
    module.silu_mul(context, x.data_ptr(), y.data_ptr(), 3, size, out.data_ptr())
    turned, result = guarded.copy(torch.randn(3, 2, 2 * size)), guarded.empty(3, 2, 2 * size)
    positions, frequencies = guarded.copy(torch.arange(3, dtype=torch.int32)), guarded.copy(torch.rand(size))
    module.rotary(
        context,
        turned.data_ptr(),
        positions.data_ptr(),
        frequencies.data_ptr(),
        3,
        2,
        2 * size,
        result.data_ptr(),
    )


@pytest.mark.parametrize("size", [1, 6, 20, 64])
@pytest.mark.parametrize("page_size", [3, 16, 32])
def test_attention(guarded: Guarded, size: int, page_size: int) -> None:
    module = native.extension()
    context = module.Context(2)
    pages = 200 // page_size + 10
    cache = random_cache(pages, 2, page_size, size, 1)
    keys, values = guarded.copy(cache.keys), guarded.copy(cache.values)
    for lengths in ([(150, 1)], [(3, 14), (17, 1), (0, 5)]):
        plan = random_plan(lengths, page_size, pages, 2, masked=True)
        tokens = sum(new for _, new in lengths)
        arguments, kept = attention_arguments(plan, tokens)
        queries, out = guarded.copy(torch.randn(tokens, 6, size)), guarded.empty(tokens, 6, size)
        new = guarded.copy(torch.randn(tokens, 2, size))
        module.attention(
            context,
            arguments,
            queries.data_ptr(),
            new.data_ptr(),
            new.data_ptr(),
            6,
            keys.data_ptr(),
            values.data_ptr(),
            [pages, 2, page_size, size],
            out.data_ptr(),
        )
        assert len(kept) == 4 + len(lengths) and bool(out.isfinite().all())
