"""A model whose next token is a function of ALL tokens that it finds in its KV pages: any wrong slot shows at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from rooftune.engine.contracts import (
    EngineConfig,
    GenerationRequest,
    RequestOutput,
    SamplingParameters,
    SequenceSlice,
)
from rooftune.engine.engine import Engine

VOCABULARY = 97
MODULUS = (1 << 61) - 1


def next_logits(tokens: Sequence[int]) -> np.ndarray[Any, Any]:
    """Logits after these tokens: the oracle, without any pages."""
    state = 7
    for token in tokens:
        state = (state * 1_000_003 + token + 1) % MODULUS
    return _logits_of(state)


@lru_cache(maxsize=100_000)
def _logits_of(state: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(state).normal(size=VOCABULARY).astype(np.float32) * 2


def expected_greedy(prompt: Sequence[int], count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(next_logits(tokens).argmax()))
    return tokens[len(prompt) :]


class ToyRunner:
    """Keeps token ids where a model keeps keys and values, and reads them back through the page table."""

    vocabulary = VOCABULARY

    def __init__(self, maximum_context: int = 512, delay: float = 0.0) -> None:
        self.maximum_context = maximum_context
        self.delay = delay
        self.calls = 0
        self.fail_at: set[int] = set()
        self.nan_after: int | None = None
        """Logits of sequences that hold this token are not numbers."""
        self.steps: list[list[SequenceSlice]] = []

    def allocate(self, pages: int, page_size: int) -> None:
        self.page_size = page_size
        self.store = [[-1] * page_size for _ in range(pages)]

    def forward(self, slices: Sequence[SequenceSlice]) -> torch.Tensor:
        self.calls += 1
        self.steps.append(list(slices))
        if self.delay:
            time.sleep(self.delay)
        if self.calls in self.fail_at:
            raise RuntimeError("the toy model was told to fail")
        rows = []
        for part in slices:
            for offset, token in enumerate(part.tokens):
                page, slot = divmod(part.context + offset, self.page_size)
                self.store[part.pages[page]][slot] = token
        for part in slices:
            length = part.context + len(part.tokens)
            for end in range(length - part.logits + 1, length + 1):
                seen = [token for page in part.pages for token in self.store[page]][:end]
                row = next_logits(seen)
                if self.nan_after is not None and self.nan_after in seen:
                    row = np.full_like(row, np.nan)
                rows.append(row)
        return torch.from_numpy(np.stack(rows)) if rows else torch.empty(0, VOCABULARY)

    def describe(self) -> dict[str, Any]:
        return {"name": "toy", "threads": 2}

    def counters(self) -> dict[str, int]:
        return {"toy.linear": self.calls}


def request(id: str, prompt: Sequence[int], count: int, **sampling: Any) -> GenerationRequest:
    priority = sampling.pop("priority", 0)
    return GenerationRequest(id, tuple(prompt), SamplingParameters(count, **sampling), priority)


class Collector:
    """A listener that keeps every output by request."""

    def __init__(self) -> None:
        self.calls: list[list[RequestOutput]] = []

    def __call__(self, outputs: list[RequestOutput]) -> None:
        self.calls.append(outputs)

    def outputs(self, id: str) -> list[RequestOutput]:
        return [output for call in self.calls for output in call if output.id == id]

    def tokens(self, id: str) -> list[int]:
        return [token for output in self.outputs(id) for token in output.tokens]

    def last(self, id: str) -> RequestOutput:
        last = self.outputs(id)[-1]
        assert last.finish is not None, f"{id} is not over"
        return last


SMALL = EngineConfig(slots=4, token_budget=16, page_size=4, pool_tokens=1024, batch_wait=0.0)


def make(
    config: EngineConfig = SMALL, runner: ToyRunner | None = None, **changes: Any
) -> tuple[Engine, Collector]:
    collector = Collector()
    engine = Engine(runner or ToyRunner(), replace(config, **changes), collector, debug=True)
    return engine, collector


def drain(engine: Engine, limit: int = 20_000) -> None:
    """Run steps until nothing is left; a dynamic batcher's wait is passed by trying again."""
    for _ in range(limit):
        if not engine.step() and not engine.scheduler.sequences:
            assert not engine._generators and not engine._known, "something of a finished request is kept"
            return
    raise AssertionError("the engine does not come to an end")


def serve(
    requests: Sequence[GenerationRequest], runner: ToyRunner | None = None, **changes: Any
) -> dict[str, list[int]]:
    """Tokens of each request when all are handed in at once."""
    engine, collector = make(SMALL, runner, **changes)
    for each in requests:
        engine.submit(each)
    drain(engine)
    pool = engine.scheduler.pool
    assert pool.used == 0 and pool.free + pool.cached == pool.total
    return {each.id: collector.tokens(each.id) for each in requests}
