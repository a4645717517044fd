"""The step in one native call against the same step operator by operator."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_helpers import copy_of, random_cache, random_plan, stored

from rooftune.errors import WrongInput
from rooftune.kernels.contracts import AttentionPlan, LayerCache, Operators, StorageFormat
from rooftune.kernels.native_cpu import NativeOperators
from rooftune.kernels.plan import Decoder, DecoderLayer, NativePlan
from rooftune.kernels.reference import ReferenceOperators

HIDDEN, HEADS, GROUPS, SIZE, WIDE, VOCABULARY, LAYERS = 64, 4, 2, 32, 96, 50, 3


def random_decoder(format: StorageFormat, head: StorageFormat = "q8_0", tied: bool = True) -> Decoder:
    def matrix(n: int, k: int, seed: int) -> object:
        return stored(format, n, k, seed, k**-0.5)

    layers = [
        DecoderLayer(
            attention_norm=1 + torch.rand(HIDDEN),
            query=matrix(HEADS * SIZE, HIDDEN, 10 * i),
            key=matrix(GROUPS * SIZE, HIDDEN, 10 * i + 1),
            value=matrix(GROUPS * SIZE, HIDDEN, 10 * i + 2),
            output=matrix(HIDDEN, HEADS * SIZE, 10 * i + 3),
            feed_forward_norm=1 + torch.rand(HIDDEN),
            gate=matrix(WIDE, HIDDEN, 10 * i + 4),
            up=matrix(WIDE, HIDDEN, 10 * i + 5),
            down=matrix(HIDDEN, WIDE, 10 * i + 6),
        )  # type: ignore[arg-type]
        for i in range(LAYERS)
    ]
    embedding = stored(head, VOCABULARY, HIDDEN, 99)
    return Decoder(
        embedding=embedding,
        layers=layers,
        final_norm=1 + torch.rand(HIDDEN),
        head=embedding if tied else stored(format, VOCABULARY, HIDDEN, 98),
        heads=HEADS,
        groups=GROUPS,
        head_size=SIZE,
        frequencies=10000.0 ** (-torch.arange(SIZE // 2) / (SIZE // 2)),
        epsilon=1e-5,
    )


def by_operators(
    ops: Operators, decoder: Decoder, caches: list[LayerCache], tokens: torch.Tensor, plan: AttentionPlan
) -> torch.Tensor:
    """The decoder of the llama family as the paper reads; logits of all tokens."""
    x = ops.embedding(tokens, ops.pack(decoder.embedding))  # type: ignore[arg-type]
    count = tokens.numel()
    for layer, cache in zip(decoder.layers, caches, strict=True):
        normal = ops.rms_norm(x, layer.attention_norm, decoder.epsilon)
        q, k, v = (ops.linear(normal, ops.pack(w)) for w in (layer.query, layer.key, layer.value))  # type: ignore[arg-type]
        q = ops.rotary(q.view(count, HEADS, SIZE), plan.positions, decoder.frequencies)
        k = ops.rotary(k.view(count, GROUPS, SIZE), plan.positions, decoder.frequencies)
        attended = ops.attention(q, k, v.view(count, GROUPS, SIZE), cache, plan)
        x = x + ops.linear(attended.reshape(count, -1), ops.pack(layer.output))  # type: ignore[arg-type]
        normal = ops.rms_norm(x, layer.feed_forward_norm, decoder.epsilon)
        gate, up = (ops.linear(normal, ops.pack(w)) for w in (layer.gate, layer.up))  # type: ignore[arg-type]
        x = x + ops.linear(ops.silu_mul(gate, up), ops.pack(layer.down))  # type: ignore[arg-type]
    return ops.linear(ops.rms_norm(x, decoder.final_norm, decoder.epsilon), ops.pack(decoder.head))  # type: ignore[arg-type]


NATIVE = {threads: NativeOperators(threads) for threads in (1, 2)}


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["f32", "q4_0", "q4_1", "q8_0"]),
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30)), min_size=1, max_size=3),
    st.sampled_from([4, 16]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 2]),
    st.integers(0, 99),
)
def test_one_call_equals_the_operators(
    format: StorageFormat,
    lengths: list[tuple[int, int]],
    page_size: int,
    masked: bool,
    tied: bool,
    threads: int,
    seed: int,
) -> None:
    decoder = random_decoder(format, tied=tied)
    pages = sum(-(-(context + new) // page_size) for context, new in lengths) + 1
    caches = [random_cache(pages, GROUPS, page_size, SIZE, seed + i) for i in range(LAYERS)]
    theirs = [copy_of(cache) for cache in caches]
    plan = random_plan(lengths, page_size, pages, seed, masked)
    count = sum(new for _, new in lengths)
    tokens = torch.randint(0, VOCABULARY, (count,))
    rows = torch.tensor([count - 1, 0])
    native_plan = NativePlan(NATIVE[threads], decoder)
    native_plan.bind(caches)
    logits = native_plan.step(tokens, plan, rows)
    expected = by_operators(NATIVE[threads], decoder, theirs, tokens, plan)
    torch.testing.assert_close(logits, expected[rows], rtol=1e-3, atol=2e-3)
    for ours, other in zip(caches, theirs, strict=True):
        torch.testing.assert_close(ours.keys, other.keys, rtol=1e-3, atol=2e-3)
        torch.testing.assert_close(ours.values, other.values, rtol=1e-3, atol=2e-3)


def test_float_weights_give_the_reference() -> None:
    decoder = random_decoder("f32", head="f32")
    caches = [random_cache(9, GROUPS, 16, SIZE, i) for i in range(LAYERS)]
    theirs = [copy_of(cache) for cache in caches]
    plan = random_plan([(40, 1), (3, 20)], 16, 9, 4)
    tokens = torch.randint(0, VOCABULARY, (21,))
    native_plan = NativePlan(NATIVE[2], decoder)
    native_plan.bind(caches)
    logits = native_plan.step(tokens, plan, torch.arange(21))
    expected = by_operators(ReferenceOperators(), decoder, theirs, tokens, plan)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


def test_chunks_give_what_the_whole_prompt_gives() -> None:
    decoder = random_decoder("q4_1")
    tokens = torch.randint(0, VOCABULARY, (45,))
    results = []
    for chunks in ([45], [1, 20, 16, 8], [44, 1]):
        native_plan = NativePlan(NATIVE[2], decoder)
        native_plan.bind([random_cache(3, GROUPS, 16, SIZE, 0) for _ in range(LAYERS)])
        done = 0
        for chunk in chunks:
            positions = torch.arange(done, done + chunk)
            plan = AttentionPlan(
                torch.tensor([0, chunk]),
                torch.tensor([done]),
                torch.tensor([[0, 1, 2]]),
                positions,
                positions,
            )
            logits = native_plan.step(tokens[positions], plan, torch.tensor([chunk - 1]))
            done += chunk
        results.append(logits)
    for other in results[1:]:
        torch.testing.assert_close(results[0], other, rtol=1e-3, atol=2e-3)


def test_counters_show_the_step_and_its_kernels() -> None:
    native_plan = NativePlan(NATIVE[1], random_decoder("q4_1"))
    native_plan.bind([random_cache(2, GROUPS, 16, SIZE, 0) for _ in range(LAYERS)])
    plan = random_plan([(3, 2)], 16, 2, 0)
    assert native_plan.step(torch.tensor([1, 2]), plan, torch.tensor([], dtype=torch.int64)).shape == (
        0,
        VOCABULARY,
    )
    counts = {name.split(".")[1]: value for name, value in native_plan.counters().items()}
    assert counts == {"step": 1, "linear": 21, "rms_norm": 6, "rotary": 6, "silu_mul": 3, "attention": 3}


def test_what_does_not_fit_is_refused() -> None:
    native_plan = NativePlan(NATIVE[1], random_decoder("q4_1"))
    plan = random_plan([(3, 2)], 16, 2, 0)
    none = torch.tensor([], dtype=torch.int64)
    with pytest.raises(WrongInput, match="no cache is bound"):
        native_plan.step(torch.tensor([1, 2]), plan, none)
    with pytest.raises(WrongInput, match="3 layers"):
        native_plan.bind([random_cache(2, GROUPS, 16, SIZE, 0)])
    caches = [random_cache(2, GROUPS, 16, SIZE, 0) for _ in range(LAYERS)]
    before = [copy_of(cache) for cache in caches]
    native_plan.bind(caches)
    with pytest.raises(WrongInput, match="row 2 of 2"):
        native_plan.step(torch.tensor([1, 2]), plan, torch.tensor([2]))
    with pytest.raises(WrongInput, match="vocabulary of 50"):
        native_plan.step(torch.tensor([1, 50]), plan, none)
    with pytest.raises(WrongInput, match="2 positions"):
        native_plan.step(torch.tensor([1]), plan, none)
    assert all(torch.equal(a.keys, b.keys) for a, b in zip(caches, before, strict=True))
    decoder = random_decoder("q4_1")
    with pytest.raises(WrongInput, match="query is"):
        NativePlan(NATIVE[1], Decoder(**{**{f: getattr(decoder, f) for f in decoder.__slots__}, "heads": 2}))
