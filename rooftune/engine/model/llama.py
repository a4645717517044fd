"""The Llama decoder (Touvron et al., 2023; grouped-query attention after Ainslie et al., 2023) as a model runner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from rooftune.engine.contracts import SequenceSlice
from rooftune.engine.model.native_step import native_plan
from rooftune.engine.model.plan import attention_plan, logit_rows
from rooftune.engine.model.source import StoredModel
from rooftune.engine.model.weights import LayerWeights, LlamaWeights, Projection, pack_weights
from rooftune.kernels.contracts import AttentionPlan, LayerCache, Operators

KV_ELEMENT_BYTES = 4
"""Keys and values are kept in float32."""


class LlamaRunner:
    """Runs forward passes with one set of operators; holds weights and the KV cache, no scheduler state.

    Implements ``rooftune.engine.contracts.ModelRunner``.
    """

    def __init__(
        self,
        model: StoredModel,
        operators: Operators,
        *,
        threads: int | None = None,
        weights: LlamaWeights | None = None,
        whole_step: bool = True,
    ) -> None:
        """``weights``: already packed for ``operators`` (to share them); packed here otherwise.

        whole_step: run a step in one native call where operators and model allow it; off: operator by operator.
        """
        self.model = model
        self.shape = model.shape
        self.operators = operators
        self.threads = threads
        self.vocabulary = model.shape.vocabulary
        self.maximum_context = model.shape.maximum_context
        self.weights = weights or pack_weights(model, operators)
        self._frequencies = torch.from_numpy(model.shape.frequencies())
        self._caches: list[LayerCache] = []
        self._page_size = 0
        self._whole_step_wanted = whole_step
        self._plan, self._plan_reason = (
            native_plan(operators, self.shape, self.weights, self._frequencies)
            if whole_step
            else (None, "switched off")
        )

    def sharing_weights(self, whole_step: bool | None = None) -> LlamaRunner:
        """Another runner on the same weights, with no KV cache yet."""
        return LlamaRunner(
            self.model,
            self.operators,
            threads=self.threads,
            weights=self.weights,
            whole_step=self._whole_step_wanted if whole_step is None else whole_step,
        )

    def allocate(self, pages: int, page_size: int) -> None:
        """Allocate the KV cache, float32 [pages, G, page_size, D] twice per layer."""
        size = (pages, self.shape.kv_heads, page_size, self.shape.head_size)
        self._caches = [LayerCache(torch.zeros(size), torch.zeros(size)) for _ in range(self.shape.layers)]
        self._page_size = page_size
        if self._plan is not None:
            self._plan.bind(self._caches)

    @torch.no_grad()
    def forward(self, slices: Sequence[SequenceSlice]) -> torch.Tensor:
        """Logits, float32 [sum of slice.logits, vocabulary], in the order of the slices."""
        if not self._caches:
            raise RuntimeError("allocate() must be called before the first step")
        plan = attention_plan(slices, self._page_size)
        tokens = torch.tensor([token for one in slices for token in one.tokens], dtype=torch.int64)
        rows = logit_rows(slices)
        if self._plan is not None:
            return self._plan.step(tokens, plan, rows)
        return self.head(self.hidden_states(tokens, plan, self._caches)[rows])

    def hidden_states(
        self, tokens: torch.Tensor, plan: AttentionPlan, caches: Sequence[LayerCache]
    ) -> torch.Tensor:
        """Output of the last layer before the final norm: int64 [T] -> float32 [T, hidden]."""
        x = self.operators.embedding(tokens, self.weights.embedding)
        for layer, cache in zip(self.weights.layers, caches, strict=True):
            x = x + self._attention(x, layer, plan, cache)
            x = x + self._feed_forward(x, layer)
        return x

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Final norm and output head: [R, hidden] -> [R, vocabulary]."""
        if hidden.shape[0] == 0:
            return torch.empty(0, self.vocabulary)
        normed = self.operators.rms_norm(hidden, self.weights.norm, self.shape.norm_epsilon)
        return self.operators.linear(normed, self.weights.head)

    def _attention(
        self, x: torch.Tensor, layer: LayerWeights, plan: AttentionPlan, cache: LayerCache
    ) -> torch.Tensor:
        size = self.shape.head_size
        normed = self.operators.rms_norm(x, layer.attention_norm, self.shape.norm_epsilon)
        queries = self._project(normed, layer.query).view(-1, self.shape.heads, size)
        keys = self._project(normed, layer.key).view(-1, self.shape.kv_heads, size)
        values = self._project(normed, layer.value).view(-1, self.shape.kv_heads, size)
        queries = self.operators.rotary(queries, plan.positions, self._frequencies)
        keys = self.operators.rotary(keys, plan.positions, self._frequencies)
        attended = self.operators.attention(queries, keys, values, cache, plan)
        return self._project(attended.reshape(x.shape[0], -1), layer.attention_output)

    def _feed_forward(self, x: torch.Tensor, layer: LayerWeights) -> torch.Tensor:
        normed = self.operators.rms_norm(x, layer.feed_forward_norm, self.shape.norm_epsilon)
        gate, up = self._project(normed, layer.gate), self._project(normed, layer.up)
        return self._project(self.operators.silu_mul(gate, up), layer.down)

    def _project(self, x: torch.Tensor, projection: Projection) -> torch.Tensor:
        product = self.operators.linear(x, projection.weight)
        return product if projection.bias is None else product + projection.bias

    def describe(self) -> dict[str, Any]:
        """Facts for `/rooftune/config`; bytes are those that one step reads in the packed form."""
        return {
            "name": self.model.source.name,
            "source": self.model.source.kind,
            "format": self.model.formats(),
            "already_quantized": self.model.already_quantized(),
            "parameters": self.shape.parameters(),
            "weight_bytes": self.weights.bytes_per_step(self.operators),
            "head_bytes": self.weights.head_bytes(self.operators),
            "stored_bytes": self.model.bytes(),
            "kv_bytes_per_token": self.shape.kv_elements_per_token() * KV_ELEMENT_BYTES,
            "config": self.shape.hugging_face_config(),
            "operators": self.operators.name,
            "weight_kernel": self.operators.name,
            "weight_kernel_detail": self._kernel_detail(),
            "whole_step": {"active": self._plan is not None, "reason": self._plan_reason},
            "threads": self.threads,
        }

    def _kernel_detail(self) -> str:
        quantized = self.model.already_quantized()
        if self.operators.name == "reference":
            return (
                f"PyTorch float32; {quantized} weights dequantized at load"
                if quantized
                else "PyTorch float32"
            )
        if quantized is None:
            return "native float32 linear: the file holds floats, so nothing is packed to fewer bits"
        return f"native kernels on the file's own {quantized} blocks, activations rounded to 8 bits"

    def counters(self) -> dict[str, int]:
        """Calls by kernel: of the operators, shared by all runners on them, and of this runner's whole steps."""
        calls = Counter(self.operators.counters())
        if self._plan is not None:
            calls.update(self._plan.counters())
        return dict(calls)
