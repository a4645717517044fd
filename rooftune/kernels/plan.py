"""A whole decoder step in one native call, so that Python is not paid per operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from rooftune.errors import WrongInput
from rooftune.kernels import native
from rooftune.kernels.contracts import AttentionPlan, LayerCache, StoredTensor
from rooftune.kernels.native_cpu import NativeOperators, PackedWeight, attention_arguments

Weight = StoredTensor | PackedWeight


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """Weights of one layer of the llama family; q and k in the half-split order of their heads.

    query (H * D, hidden), key and value (G * D, hidden), output (hidden, H * D), gate and up (F, hidden),
    down (hidden, F); norms [hidden].
    """

    attention_norm: torch.Tensor
    query: Weight
    key: Weight
    value: Weight
    output: Weight
    feed_forward_norm: torch.Tensor
    gate: Weight
    up: Weight
    down: Weight


@dataclass(frozen=True, slots=True)
class Decoder:
    """Weights and shape of a decoder. ``head`` is the same object as ``embedding`` where they are tied.

    heads H, groups G, head_size D; frequencies [D / 2] of the rotation; epsilon of the norms.
    """

    embedding: Weight
    layers: Sequence[DecoderLayer]
    final_norm: torch.Tensor
    head: Weight
    heads: int
    groups: int
    head_size: int
    frequencies: torch.Tensor
    epsilon: float


class NativePlan:
    """Runs embedding, all layers and the head for one step without the GIL; results as of :class:`NativeOperators`.

    It shares threads and packed weights with ``operators``; a weight that is packed there already is not copied.
    ``WrongInput`` where shapes do not fit each other.
    """

    def __init__(self, operators: NativeOperators, decoder: Decoder) -> None:
        self._native = native.extension()
        self._isa = native.isa()
        self._packed: dict[int, PackedWeight] = {}
        self._operators = operators
        self._caches: list[LayerCache] = []
        self._calls: Counter[str] = Counter()
        self._step_calls: Counter[str] = Counter()
        self.layers = len(decoder.layers)
        embedding, self._head = self._pack(decoder.embedding), self._pack(decoder.head)
        self.vocabulary, hidden = embedding.shape
        self._groups, self._head_size = decoder.groups, decoder.head_size
        final_norm = _vector("final_norm", decoder.final_norm, hidden)
        frequencies = _vector("frequencies", decoder.frequencies, decoder.head_size // 2)
        try:
            self._plan = self._native.Plan(
                operators.context,
                embedding.matrix,
                self._head.matrix,
                final_norm.data_ptr(),
                frequencies.data_ptr(),
                decoder.heads,
                decoder.groups,
                decoder.head_size,
                decoder.epsilon,
            )
            for layer in decoder.layers:
                self._add(layer, hidden)
        except ValueError as error:
            raise WrongInput(f"decoder: {error}") from error
        self._packed.clear()

    def bind(self, caches: Sequence[LayerCache]) -> None:
        """Use these caches, one per layer, float32 [pages, G, page_size, D] each, from the next step on."""
        shapes = {tuple(held.shape) for cache in caches for held in (cache.keys, cache.values)}
        if len(caches) != self.layers or len(shapes) != 1:
            raise WrongInput(
                f"a plan of {self.layers} layers needs as many caches of one shape, not {len(caches)}"
            )
        pages, groups, page_size, size = shapes.pop()
        if (groups, size) != (self._groups, self._head_size):
            raise WrongInput(
                f"a cache of {groups} heads of {size} does not fit {self._groups} of {self._head_size}"
            )
        for cache in caches:
            for held in (cache.keys, cache.values):
                if held.dtype != torch.float32 or not held.is_contiguous():
                    raise WrongInput("caches must be contiguous float32")
        self._plan.bind_cache(
            [cache.keys.data_ptr() for cache in caches],
            [cache.values.data_ptr() for cache in caches],
            pages,
            page_size,
        )
        self._caches = list(caches)

    def step(self, tokens: torch.Tensor, plan: AttentionPlan, logit_rows: torch.Tensor) -> torch.Tensor:
        """Compute new tokens int64 [T] under a plan; logits float32 [R, vocabulary] of the rows int64 [R] of T.

        ``WrongInput``, with nothing written, where the plan points outside the cache or a row outside T.
        """
        tokens = tokens.to(torch.int64).contiguous()
        rows = logit_rows.to(torch.int64).contiguous()
        positions = plan.positions.to(torch.int32).contiguous()
        if positions.numel() != tokens.numel():
            raise WrongInput(f"a step of {tokens.numel()} tokens has {positions.numel()} positions")
        arguments, kept = attention_arguments(plan, tokens.numel())
        out = torch.empty(rows.numel(), self.vocabulary)
        try:
            self._plan.step(
                arguments,
                tokens.data_ptr(),
                positions.data_ptr(),
                rows.data_ptr(),
                rows.numel(),
                out.data_ptr(),
            )
        except ValueError as error:
            raise WrongInput(str(error)) from error
        finally:
            kept.clear()
        self._count(rows.numel() > 0)
        return out

    def counters(self) -> dict[str, int]:
        """Steps (``packed.step.<isa>``) and the calls by kernel that they were made of."""
        return dict(self._calls)

    def _pack(self, weight: Weight) -> PackedWeight:
        if isinstance(weight, PackedWeight):
            return weight
        if id(weight) not in self._packed:
            self._packed[id(weight)] = self._operators.pack(weight)
        return self._packed[id(weight)]

    def _add(self, layer: DecoderLayer, hidden: int) -> None:
        weights = [
            self._pack(weight)
            for weight in (
                layer.query,
                layer.key,
                layer.value,
                layer.output,
                layer.gate,
                layer.up,
                layer.down,
            )
        ]
        attention_norm = _vector("attention_norm", layer.attention_norm, hidden)
        feed_forward_norm = _vector("feed_forward_norm", layer.feed_forward_norm, hidden)
        self._plan.add_layer(
            *(weight.matrix for weight in weights), attention_norm.data_ptr(), feed_forward_norm.data_ptr()
        )
        for weight in weights:
            self._step_calls[f"packed.linear.{weight.format}.{self._isa}"] += 1
        for operator, times in (("rms_norm", 2), ("rotary", 2), ("silu_mul", 1), ("attention", 1)):
            self._step_calls[f"packed.{operator}.{self._isa}"] += times

    def _count(self, logits: bool) -> None:
        self._calls.update(self._step_calls)
        self._calls[f"packed.step.{self._isa}"] += 1
        if logits:
            self._calls[f"packed.linear.{self._head.format}.{self._isa}"] += 1
            self._calls[f"packed.rms_norm.{self._isa}"] += 1


def _vector(name: str, values: torch.Tensor, size: int) -> torch.Tensor:
    if values.numel() != size:
        raise WrongInput(f"decoder: {name} has {values.numel()} values, {size} are needed")
    return values.to(torch.float32).contiguous()
