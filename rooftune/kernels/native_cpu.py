"""The operators in native code: packed weights, 8-bit activations, threads without the GIL.

Numerics: a linear operator on a block format rounds its activations to 8 bits per 32 values (scale = max|x| / 127)
and sums whole numbers; everything else is float32.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch

from rooftune.errors import WrongInput
from rooftune.kernels import native
from rooftune.kernels.contracts import AttentionPlan, LayerCache, StoredTensor
from rooftune.kernels.stored import BLOCK_BYTES, check, dequantize


class PackedWeight:
    """A matrix (N, K) in the layout of the native kernels."""

    __slots__ = ("format", "matrix", "shape")

    def __init__(self, weight: StoredTensor) -> None:
        """Pack a copy; f16 and bf16 become f32. ``WrongInput`` for what is no matrix or does not fit its bytes."""
        check(weight)
        if len(weight.shape) != 2:
            raise WrongInput(
                f"tensor {weight.name!r} of shape {list(weight.shape)} is no matrix and cannot be packed"
            )
        self.shape = (weight.shape[0], weight.shape[1])
        self.format = weight.format if weight.format in BLOCK_BYTES else "f32"
        data = weight.data if weight.format in BLOCK_BYTES else dequantize(weight)
        data = np.ascontiguousarray(data)
        self.matrix: Any = native.extension().Matrix(self.format, data.ctypes.data, *self.shape)


class NativeOperators:
    """Operators protocol on the native kernels. Calls from several threads take turns.

    ``threads`` counts the calling one. ``WrongInput`` where a shape does not fit.
    """

    name = "packed"

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise WrongInput(f"threads is {threads}; it must be at least 1")
        self._isa = native.isa()
        self._native = native.extension()
        self._context = self._native.Context(threads)
        self._calls: Counter[str] = Counter()
        self._plan: AttentionPlan | None = None
        self._arguments: Any = None
        self._kept: list[torch.Tensor] = []

    @property
    def context(self) -> Any:
        """The native threads and buffers, for :class:`~rooftune.kernels.plan.NativePlan`."""
        return self._context

    @property
    def threads(self) -> int:
        """Threads that share one operator, the caller among them."""
        return int(self._context.threads)

    def pack(self, weight: StoredTensor) -> PackedWeight:
        """Copy a stored matrix into tiles of eight interleaved rows; the stored bytes may go."""
        return PackedWeight(weight)

    def weight_bytes(self, weight: PackedWeight) -> int:
        """Bytes that one use of the packed weight reads."""
        return int(weight.matrix.bytes)

    def embedding(self, tokens: torch.Tensor, weight: PackedWeight) -> torch.Tensor:
        """int64 [T] -> float32 [T, K]; ``WrongInput`` for a token outside the table."""
        self._count("embedding", weight.format)
        tokens = tokens.to(torch.int64).contiguous()
        out = torch.empty(tokens.shape[0], weight.shape[1])
        try:
            self._native.embedding(weight.matrix, tokens.data_ptr(), tokens.shape[0], out.data_ptr())
        except ValueError as error:
            raise WrongInput(str(error)) from error
        return out

    def linear(self, x: torch.Tensor, weight: PackedWeight) -> torch.Tensor:
        """x [T, K] -> [T, N]."""
        rows, columns = x.shape
        if columns != weight.shape[1]:
            raise WrongInput(
                f"linear: x has {columns} columns, the weight {list(weight.shape)} takes {weight.shape[1]}"
            )
        self._count("linear", weight.format)
        x = _floats(x)
        out = torch.empty(rows, weight.shape[0])
        self._native.linear(self._context, x.data_ptr(), rows, weight.matrix, out.data_ptr())
        return out

    def rms_norm(self, x: torch.Tensor, gain: torch.Tensor, epsilon: float) -> torch.Tensor:
        """x / sqrt(mean(x^2) + epsilon) * gain over the last dimension, x [..., K]."""
        size = x.shape[-1]
        _same("rms_norm", gain.numel(), size)
        self._count("rms_norm")
        x, gain = _floats(x), _floats(gain)
        out = torch.empty_like(x)
        rows = x.numel() // size
        self._native.rms_norm(
            self._context, x.data_ptr(), gain.data_ptr(), epsilon, rows, size, out.data_ptr()
        )
        return out

    def rotary(self, x: torch.Tensor, positions: torch.Tensor, frequencies: torch.Tensor) -> torch.Tensor:
        """Rotate x [T, heads, D], half-split pairs."""
        tokens, heads, size = x.shape
        _same("rotary", positions.numel(), tokens)
        _same("rotary", 2 * frequencies.numel(), size)
        self._count("rotary")
        x, frequencies = _floats(x), _floats(frequencies)
        positions = positions.to(torch.int32).contiguous()
        out = torch.empty_like(x)
        self._native.rotary(
            self._context,
            x.data_ptr(),
            positions.data_ptr(),
            frequencies.data_ptr(),
            tokens,
            heads,
            size,
            out.data_ptr(),
        )
        return out

    def silu_mul(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        """silu(gate) * up, [T, F] each."""
        if gate.shape != up.shape:
            raise WrongInput(f"silu_mul: gate {list(gate.shape)} and up {list(up.shape)} differ")
        self._count("silu_mul")
        gate, up = _floats(gate), _floats(up)
        out = torch.empty_like(gate)
        rows, size = gate.shape
        self._native.silu_mul(self._context, gate.data_ptr(), up.data_ptr(), rows, size, out.data_ptr())
        return out

    def attention(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        cache: LayerCache,
        plan: AttentionPlan,
    ) -> torch.Tensor:
        """Write keys and values [T, G, D] into the cache, attend with queries [T, H, D] -> [T, H, D].

        ``WrongInput`` where the plan points outside the cache; nothing is written then.
        """
        tokens, heads, size = queries.shape
        pages, groups, page_size, _ = cache.keys.shape
        for new in (keys, values):
            if tuple(new.shape) != (tokens, groups, size):
                raise WrongInput(
                    f"attention: keys or values {list(new.shape)} are not {[tokens, groups, size]}"
                )
        for held in (cache.keys, cache.values):
            if tuple(held.shape) != (pages, groups, page_size, size) or not held.is_contiguous():
                raise WrongInput("attention: the cache must be contiguous and fit the queries")
        if not cache.keys.dtype == cache.values.dtype == torch.float32:
            raise WrongInput("attention: the cache must be float32")
        self._count("attention")
        queries, keys, values = _floats(queries), _floats(keys), _floats(values)
        out = torch.empty_like(queries)
        try:
            self._native.attention(
                self._context,
                self._plan_arguments(plan, tokens),
                queries.data_ptr(),
                keys.data_ptr(),
                values.data_ptr(),
                heads,
                cache.keys.data_ptr(),
                cache.values.data_ptr(),
                [pages, groups, page_size, size],
                out.data_ptr(),
            )
        except ValueError as error:
            raise WrongInput(str(error)) from error
        return out

    def counters(self) -> dict[str, int]:
        """Calls by kernel since the start: ``packed.<operator>[.<format>].<isa>``."""
        return dict(self._calls)

    def _count(self, operator: str, format: str | None = None) -> None:
        middle = operator if format is None else f"{operator}.{format}"
        self._calls[f"packed.{middle}.{self._isa}"] += 1

    def _plan_arguments(self, plan: AttentionPlan, tokens: int) -> Any:
        """Addresses of the plan's arrays; made once per plan, since all layers of a step share it."""
        if plan is not self._plan:
            self._arguments, self._kept = attention_arguments(plan, tokens)
            self._plan = plan
        return self._arguments


def attention_arguments(plan: AttentionPlan, tokens: int) -> tuple[Any, list[torch.Tensor]]:
    """The plan as the native code takes it, and the tensors that must live as long; ``WrongInput`` if sizes differ."""
    sequences = plan.context_lengths.shape[0]
    _same("attention plan: query_starts", plan.query_starts.numel(), sequences + 1)
    _same("attention plan: slot_mapping", plan.slot_mapping.numel(), tokens)
    if plan.page_tables.dim() != 2:
        raise WrongInput("attention plan: page_tables must have two dimensions")
    _same("attention plan: page_tables", plan.page_tables.shape[0], sequences)
    kept = [
        plan.query_starts.to(torch.int32).contiguous(),
        plan.context_lengths.to(torch.int32).contiguous(),
        plan.page_tables.to(torch.int32).contiguous(),
        plan.slot_mapping.to(torch.int64).contiguous(),
    ]
    addresses = [tensor.data_ptr() for tensor in kept]
    masks: list[int] = []
    if plan.mask is not None:
        _same("attention plan: masks", len(plan.mask), sequences)
        lengths = kept[0].diff().tolist()
        for mask, length in zip(plan.mask, lengths, strict=True):
            if tuple(mask.shape) != (length, length):
                raise WrongInput(f"attention plan: a mask is {list(mask.shape)}, not {[length, length]}")
            kept.append(mask.to(torch.uint8).contiguous())
            # An empty tensor has no address, and no query that could look at it.
            masks.append(kept[-1].data_ptr())
    arguments = native.extension().AttentionArguments(
        *addresses, sequences, plan.page_tables.shape[1], tokens, masks
    )
    return arguments, kept


def _floats(x: torch.Tensor) -> torch.Tensor:
    """The same values as contiguous float32; no copy where they are so already."""
    return x.to(torch.float32).contiguous()


def _same(what: str, given: int, wanted: int) -> None:
    if given != wanted:
        raise WrongInput(f"{what}: {given} elements were given, {wanted} are needed")
