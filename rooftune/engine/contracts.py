"""What the scheduler and a model runner say to each other, and what the engine says to its server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import torch

FinishReason = Literal["stop", "length", "abort", "error"]


@dataclass(frozen=True, slots=True)
class SequenceSlice:
    """One sequence's part of a step.

    tokens: new tokens to compute; context: tokens of this sequence already committed in the KV cache;
    pages: the sequence's page table, long enough for context + len(tokens);
    logits: how many of the last new positions need logits (0 while a prompt is still being read, 1 for decode).
    """

    tokens: Sequence[int]
    context: int
    pages: Sequence[int]
    logits: int


class ModelRunner(Protocol):
    """Runs one forward pass over slices of several sequences; holds weights and KV, no scheduler state."""

    vocabulary: int
    maximum_context: int

    def allocate(self, pages: int, page_size: int) -> None:
        """Allocate the KV cache; called once before the first step."""
        ...

    def forward(self, slices: Sequence[SequenceSlice]) -> torch.Tensor:
        """Logits, float32 [sum of slice.logits, vocabulary], in the order of the slices."""
        ...

    def describe(self) -> dict[str, Any]:
        """Facts for `/rooftune/config`: name, format, parameters, weight_bytes (read per step, head included),
        head_bytes, kv_bytes_per_token, config (keys as in a Hugging Face config.json), operators, threads."""
        ...

    def counters(self) -> dict[str, int]:
        """Counters of the operators in use (calls by kernel)."""
        ...


@dataclass(frozen=True, slots=True)
class SamplingParameters:
    """How tokens are drawn. temperature 0 is greedy. ``logprobs``: number of top alternatives, None for off."""

    maximum_tokens: int
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    stop_tokens: frozenset[int] = frozenset()
    ignore_end: bool = False
    logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A request as the engine sees it: tokens in, tokens out. Text, stop strings and UTF-8 are the server's."""

    id: str
    prompt: tuple[int, ...]
    sampling: SamplingParameters
    priority: int = 0


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """What one step produced for one request."""

    id: str
    tokens: tuple[int, ...]
    finish: FinishReason | None
    cached_tokens: int
    logprobs: tuple[TokenLogprob, ...] = ()
    error: str | None = None
    timings: dict[str, float] = field(default_factory=dict)
    """At the end of a request, seconds: queue, prefill, decode."""


StepListener = Callable[[list[RequestOutput]], None]
"""Called from the engine's thread once per step with everything that the step produced."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The resolved switches of the engine. The defaults are the best known ("Rooftune defaults")."""

    batching: Literal["static", "dynamic", "continuous"] = "continuous"
    slots: int = 16
    batch_wait: float = 0.05
    """Dynamic batching only: seconds that a partial batch waits for more requests."""
    token_budget: int = 256
    """Most new tokens in one step."""
    chunked_prefill: bool = True
    """Off: a prompt is computed whole, in a step without decodes."""
    prefix_cache: Literal["none", "hash"] = "hash"
    pool_tokens: int = 16384
    page_size: int = 16
    weight_kernel: Literal["reference", "packed"] = "packed"
    """reference: PyTorch float32 of the dequantized weights; packed: native kernels on the file's own grid."""
    threads: int = 2
    queue_limit: int = 1024
    seed: int = 0
