"""Every native operator against the reference, on ragged shapes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_helpers import copy_of, random_cache, random_plan, stored

from rooftune.errors import WrongInput
from rooftune.kernels.contracts import StorageFormat, StoredTensor
from rooftune.kernels.native_cpu import NativeOperators
from rooftune.kernels.reference import ReferenceOperators
from rooftune.kernels.table import operators

REFERENCE = ReferenceOperators()
NATIVE = {threads: NativeOperators(threads) for threads in (1, 2, 3)}
FEW = settings(max_examples=25, deadline=None)
THREADS = st.sampled_from([1, 2, 3])


def int8_bound(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Rounding an activation moves it by at most half a step, max|x| of its block / 127 / 2; float32 sums on top."""
    blocks = x.abs().unflatten(-1, (-1, 32))
    half_step = (blocks.amax(-1, keepdim=True) / 254).expand_as(blocks).flatten(-2)
    return half_step @ weight.abs().T + 1e-5 * (x.abs() @ weight.abs().T) + 1e-6


@FEW
@given(
    st.sampled_from(["q4_0", "q4_1", "q8_0"]),
    st.integers(1, 40),
    st.integers(1, 5),
    st.integers(1, 30),
    THREADS,
    st.integers(0, 9),
)
def test_block_linear_stays_within_the_rounding_of_its_activations(
    format: StorageFormat, n: int, blocks: int, rows: int, threads: int, seed: int
) -> None:
    weight = stored(format, n, 32 * blocks, seed)
    x = torch.randn(rows, 32 * blocks, generator=torch.Generator().manual_seed(seed)) * 10.0 ** (seed - 4)
    dense = REFERENCE.pack(weight)
    result = NATIVE[threads].linear(x, NATIVE[threads].pack(weight))
    error = (result - REFERENCE.linear(x, dense)).abs()
    assert bool((error <= int8_bound(x, dense.values)).all())


@pytest.mark.parametrize("format", ["q4_0", "q4_1", "q8_0"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 17, 130])
def test_block_linear_is_exact_on_whole_numbers(format: StorageFormat, rows: int) -> None:
    """Whole numbers up to 127 with 127 in each block survive the rounding, extremes of 4 and 8 bits included."""
    generator = torch.Generator().manual_seed(rows)
    x = torch.randint(-127, 128, (rows, 96), generator=generator).float()
    x[:, ::32] = 127
    x[0] = 127
    weight = stored(format, 23, 96, seed=rows, scale=3.0)
    data = weight.data.copy()
    if format != "q8_0":
        data.reshape(23, -1)[:4, 4:18] = 0xFF  # values of 15: the largest sums that 16 bits must hold
    else:
        data.reshape(23, -1)[:4, 2:34] = 0x80  # values of -128
    weight = StoredTensor("w", format, weight.shape, data)
    dense = REFERENCE.pack(weight)
    result = NATIVE[2].linear(x, NATIVE[2].pack(weight))
    torch.testing.assert_close(result, REFERENCE.linear(x, dense), rtol=1e-5, atol=2e-2)


@FEW
@given(
    st.sampled_from(["f32", "f16", "bf16"]),
    st.integers(1, 40),
    st.integers(1, 70),
    st.integers(1, 60),
    THREADS,
)
def test_float_linear(format: StorageFormat, n: int, k: int, rows: int, threads: int) -> None:
    weight = stored(format, n, k)
    x = torch.randn(rows, k)
    ours = NATIVE[threads].linear(x, NATIVE[threads].pack(weight))
    torch.testing.assert_close(ours, REFERENCE.linear(x, REFERENCE.pack(weight)), rtol=1e-4, atol=1e-4)


@FEW
@given(
    st.sampled_from(["f32", "q4_0", "q4_1", "q8_0"]),
    st.integers(1, 20),
    st.lists(st.integers(0, 999), max_size=9),
)
def test_embedding_is_exact(format: StorageFormat, n: int, picks: list[int]) -> None:
    weight = stored(format, n, 64)
    tokens = torch.tensor([pick % n for pick in picks], dtype=torch.int64)
    ours = NATIVE[1].embedding(tokens, NATIVE[1].pack(weight))
    torch.testing.assert_close(
        ours, REFERENCE.embedding(tokens, REFERENCE.pack(weight)), rtol=1e-6, atol=1e-6
    )


@FEW
@given(st.integers(1, 60), st.integers(1, 700), THREADS)
def test_rms_norm(rows: int, size: int, threads: int) -> None:
    x, gain = torch.randn(rows, size) * 3, torch.randn(size)
    ours = NATIVE[threads].rms_norm(x, gain, 1e-5)
    torch.testing.assert_close(ours, REFERENCE.rms_norm(x, gain, 1e-5), rtol=1e-5, atol=1e-5)


@FEW
@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 40), THREADS)
def test_rotary(tokens: int, heads: int, half: int, threads: int) -> None:
    x = torch.randn(tokens, heads, 2 * half)
    positions = torch.randint(0, 4000, (tokens,), dtype=torch.int32)
    frequencies = 10000.0 ** (-torch.arange(half) / half)
    ours = NATIVE[threads].rotary(x, positions, frequencies)
    torch.testing.assert_close(ours, REFERENCE.rotary(x, positions, frequencies), rtol=1e-4, atol=1e-4)


@FEW
@given(st.integers(1, 60), st.integers(1, 400), st.floats(0.1, 100), THREADS)
def test_silu_mul(rows: int, size: int, scale: float, threads: int) -> None:
    gate, up = torch.randn(rows, size) * scale, torch.randn(rows, size)
    torch.testing.assert_close(
        NATIVE[threads].silu_mul(gate, up), REFERENCE.silu_mul(gate, up), rtol=2e-6, atol=1e-6
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(1, 20)), min_size=1, max_size=4),
    st.sampled_from([(1, 1), (3, 1), (9, 3), (2, 2)]),
    st.sampled_from([2, 8, 20, 64]),
    st.sampled_from([1, 4, 16, 32]),
    st.booleans(),
    THREADS,
    st.integers(0, 99),
)
def test_attention_over_random_pages(
    lengths: list[tuple[int, int]],
    heads: tuple[int, int],
    size: int,
    page_size: int,
    masked: bool,
    threads: int,
    seed: int,
) -> None:
    check_attention(lengths, heads, size, page_size, masked, threads, seed)


@pytest.mark.parametrize("threads", [1, 3])
def test_attention_of_one_long_sequence_is_cut_and_joined(threads: int) -> None:
    check_attention([(1500, 1)], (9, 3), 64, 16, False, threads, 5)
    check_attention([(700, 40), (0, 70)], (9, 3), 64, 16, True, threads, 6)


def check_attention(
    lengths: list[tuple[int, int]],
    heads: tuple[int, int],
    size: int,
    page_size: int,
    masked: bool,
    threads: int,
    seed: int,
) -> None:
    pages = sum(-(-(context + new) // page_size) for context, new in lengths) + 1
    cache = random_cache(pages, heads[1], page_size, size, seed)
    theirs = copy_of(cache)
    plan = random_plan(lengths, page_size, pages, seed, masked)
    tokens = sum(new for _, new in lengths)
    queries = torch.randn(tokens, heads[0], size) * 2
    keys, values = torch.randn(tokens, heads[1], size), torch.randn(tokens, heads[1], size)
    ours = NATIVE[threads].attention(queries, keys, values, cache, plan)
    expected = REFERENCE.attention(queries, keys, values, theirs, plan)
    torch.testing.assert_close(ours, expected, rtol=2e-4, atol=2e-5)
    assert torch.equal(cache.keys, theirs.keys) and torch.equal(cache.values, theirs.values)


def test_attention_refuses_a_plan_that_points_outside() -> None:
    cache = random_cache(4, 1, 4, 8, 0)
    before = copy_of(cache)
    new = torch.randn(2, 1, 8)
    for field, value in (("page_tables", 4), ("page_tables", -1), ("slot_mapping", 16), ("slot_mapping", -1)):
        plan = random_plan([(3, 2)], 4, 4, 1)
        getattr(plan, field).view(-1)[0] = value
        with pytest.raises(WrongInput, match="outside the cache"):
            NATIVE[2].attention(new, new, new, cache, plan)
    plan = random_plan([(3, 2)], 4, 4, 1)
    plan.context_lengths[0] = 100
    with pytest.raises(WrongInput, match="too short"):
        NATIVE[2].attention(new, new, new, cache, plan)
    assert torch.equal(cache.keys, before.keys)


def test_what_does_not_fit_is_refused() -> None:
    native = NATIVE[1]
    weight = native.pack(stored("q4_1", 8, 64))
    with pytest.raises(WrongInput, match="takes 64"):
        native.linear(torch.randn(1, 32), weight)
    with pytest.raises(WrongInput, match="vocabulary of 8"):
        native.embedding(torch.tensor([8]), weight)
    with pytest.raises(WrongInput, match="threads"):
        NativeOperators(0)
    with pytest.raises(WrongInput, match="reference or packed"):
        operators("fast", 1)
    assert native.linear(torch.empty(0, 64), weight).shape == (0, 8)


def test_not_a_number_stays_visible() -> None:
    weight = NATIVE[2].pack(stored("q4_1", 8, 64))
    x = torch.ones(2, 64)
    x[1, 40] = torch.nan
    result = NATIVE[2].linear(x, weight)
    assert bool(result[0].isfinite().all()) and bool(result[1].isnan().all())


def test_counters_name_what_was_on() -> None:
    native = NativeOperators(1)
    assert native.counters() == {}
    native.linear(torch.randn(1, 32), native.pack(stored("q8_0", 8, 32)))
    (name,) = native.counters()
    assert name.startswith("packed.linear.q8_0.") and native.counters()[name] == 1


def test_weight_bytes_are_those_of_the_file_where_rows_fill_tiles() -> None:
    for format, size in (("q4_0", 18), ("q4_1", 20), ("q8_0", 34)):
        weight = stored(format, 16, 64)  # type: ignore[arg-type]
        assert NATIVE[1].weight_bytes(NATIVE[1].pack(weight)) == 16 * 2 * size == weight.data.nbytes


def test_callers_on_several_threads_take_turns() -> None:
    weight = NATIVE[2].pack(stored("q4_1", 96, 256))
    inputs = [torch.randn(3, 256) for _ in range(4)]
    expected = [NATIVE[2].linear(x, weight) for x in inputs]
    wrong: list[int] = []

    def work(index: int) -> None:
        for _ in range(100):
            if not torch.equal(NATIVE[2].linear(inputs[index], weight), expected[index]):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


CODE = """
import sys, torch
sys.path.insert(0, {tests!r})
from kernel_helpers import *
from rooftune.kernels.native_cpu import NativeOperators
native = NativeOperators(2)
torch.manual_seed(1)
out = []
for format in ("f32", "q4_0", "q4_1", "q8_0"):
    weight = native.pack(stored(format, 21, 96))
    for rows in (1, 5, 19):
        out.append(native.linear(torch.randn(rows, 96), weight))
    out.append(native.embedding(torch.tensor([0, 20, 7]), weight))
out.append(native.rms_norm(torch.randn(3, 77), torch.randn(77), 1e-5))
out.append(native.silu_mul(torch.randn(3, 77) * 9, torch.randn(3, 77)))
out.append(native.rotary(torch.randn(5, 2, 20), torch.arange(5, dtype=torch.int32), torch.rand(10)))
cache = random_cache(12, 3, 16, 64, 2)
plan = random_plan([(30, 1), (5, 40), (20, 3)], 16, 12, 3)
out.append(native.attention(torch.randn(44, 9, 64), torch.randn(44, 3, 64), torch.randn(44, 3, 64), cache, plan))
torch.save([*out, ], {path!r})
print(*native.counters())
"""


def test_portable_equals_the_best_set_of_this_machine(tmp_path: Path) -> None:
    results = []
    for isa in ("portable", ""):
        path = str(tmp_path / f"out-{isa}.pt")
        code = CODE.format(tests=str(Path(__file__).parent), path=path)
        environment = dict(os.environ, ROOFTUNE_ISA=isa)
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 and done.stderr == "", done.stderr
        assert isa in done.stdout
        results.append(torch.load(path))
    for portable, best in zip(*results, strict=True):
        torch.testing.assert_close(portable, best, rtol=1e-4, atol=1e-4)


def test_a_forked_child_has_threads_of_its_own() -> None:
    code = """
import os, torch
from rooftune.kernels.native_cpu import NativeOperators
from kernel_helpers import stored
native = NativeOperators(3)
weight = native.pack(stored("q4_1", 96, 256))
x = torch.ones(4, 256)
expected = native.linear(x, weight)
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(native.linear(x, weight), expected) else 1)
_, status = os.waitpid(child, 0)
assert status == 0 and torch.equal(native.linear(x, weight), expected)
"""
    environment = dict(os.environ, PYTHONPATH=str(Path(__file__).parent))
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
