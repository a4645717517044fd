"""Operations and bytes against slow, obvious references."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooftune.arithmetic import (
    decode_flops,
    decode_step_bytes,
    kv_bytes,
    kv_bytes_per_token,
    kv_read_bytes,
    model_shape,
    parameters,
    prefill_flops,
    step_bytes,
    step_flops,
    touched_experts,
    touched_share,
    useful_flops,
    weight_bytes,
)
from rooftune.arithmetic.shape import Attention
from rooftune.errors import WrongInput

SMOL: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}
WINDOWED = {**SMOL, "model_type": "mistral", "sliding_window": 8, "num_hidden_layers": 2}
LATENT: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "hidden_size": 64,
    "intermediate_size": 128,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 3,
    "first_k_dense_replace": 1,
    "num_attention_heads": 4,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "vocab_size": 100,
}


def attention(span: Any, reach: int, top: int = 0) -> Attention:
    return Attention(
        matrix=0, vector=0, heads=1, key_size=1, value_size=1, cache_elements=2, decode_key_size=1,
        decode_value_size=1, span=span, reach=reach, index_top=top,
    )  # fmt: skip


@given(
    st.sampled_from(["full", "window", "chunk"]),
    st.integers(1, 20),
    st.integers(0, 60),
    st.integers(0, 60),
    st.integers(0, 10),
)
def test_pairs_are_the_sum_over_queries(span: str, reach: int, start: int, more: int, top: int) -> None:
    layer = attention(span, reach, 0 if span == "chunk" else top)
    seen = 0
    for query in range(start, start + more):
        keys = list(range(query + 1))
        if span == "window":
            keys = [key for key in keys if query - key < reach]
        if span == "chunk":
            keys = [key for key in keys if key // reach == query // reach]
        count = len(keys) if not layer.index_top else min(len(keys), layer.index_top)
        assert layer.visible(query + 1) == count
        seen += count
    assert layer.pairs(start, start + more) == seen


def test_smollm2_135m() -> None:
    """134,515,008: the published tensors of SmolLM2-135M (tied embedding counted once)."""
    counted = parameters(SMOL)
    assert counted.total == counted.active == 134_515_008
    assert counted.head == 0
    assert counted.embedding == 28_311_552
    assert kv_bytes_per_token(SMOL, 4.0) == 2 * 30 * 3 * 64 * 4


def test_prefill_by_listing_every_product() -> None:
    hidden, width, heads, groups, size, tokens = 576, 1536, 9, 3, 64, 7
    layer = 0
    for columns in (heads * size, groups * size, groups * size):
        layer += 2 * tokens * hidden * columns
    layer += 2 * tokens * heads * size * hidden + 3 * 2 * tokens * hidden * width
    for query in range(tokens):
        layer += heads * (query + 1) * (2 * size + 2 * size)
    assert prefill_flops(SMOL, tokens, sampled=1) == 30 * layer + 2 * hidden * 49152


@pytest.mark.parametrize("config", [SMOL, WINDOWED, LATENT])
def test_useful_operations_of_a_request_are_the_sum_of_its_steps(config: dict[str, Any]) -> None:
    prompt, cached, output = 21, 8, 6
    slow = prefill_flops(config, prompt - cached, cached=cached, sampled=1)
    for produced in range(output - 1):
        slow += decode_flops(config, prompt + produced)
    assert useful_flops(config, prompt, cached, output) == pytest.approx(slow, rel=1e-12)


@given(st.integers(1, 50), st.integers(1, 50))
@settings(max_examples=25)
def test_chunks_add_up_to_the_whole_prefill(first: int, second: int) -> None:
    for config in (SMOL, WINDOWED, LATENT):
        whole = prefill_flops(config, first + second, sampled=1)
        parts = prefill_flops(config, first, sampled=0) + prefill_flops(
            config, second, cached=first, sampled=1
        )
        assert parts == pytest.approx(whole, rel=1e-12)


def test_a_cached_prefix_costs_nothing_and_one_token_is_always_computed() -> None:
    assert useful_flops(SMOL, 10, 10, 1) == prefill_flops(SMOL, 1, cached=9, sampled=1)
    assert useful_flops(SMOL, 10, 0, 0) == prefill_flops(SMOL, 10, sampled=0)
    assert useful_flops(SMOL, 0, 0, 0) == 0.0


def test_mixed_step_is_prefill_plus_decode() -> None:
    mixed = step_flops(SMOL, prefill_tokens=16, decode_rows=3, context_tokens=300.0, sampled=0)
    assert mixed == prefill_flops(SMOL, 16, sampled=0) + 3 * decode_flops(SMOL, 100)


def test_kv_of_a_window_stops_growing() -> None:
    assert kv_bytes(WINDOWED, 8, 2.0) == kv_bytes(WINDOWED, 1000, 2.0)
    assert kv_bytes(SMOL, 1000, 2.0) == 1000 * kv_bytes_per_token(SMOL, 2.0)
    assert kv_read_bytes(SMOL, 1000, 2.0) == 1000 * kv_bytes_per_token(SMOL, 2.0)
    # A window of 8 holds the row's own token and 7 cached ones.
    assert kv_read_bytes(WINDOWED, 1000, 2.0) == 7 * kv_bytes_per_token(WINDOWED, 2.0)


def test_latent_attention_caches_the_latent_and_decodes_absorbed() -> None:
    assert kv_bytes_per_token(LATENT, 2.0) == 3 * (16 + 4) * 2
    shape = model_shape(LATENT)
    step = decode_flops(LATENT, 9) - 2 * (shape.body_matrix_active + shape.embedding)
    assert step == 3 * 2 * 4 * ((16 + 4) + 16) * 10


def test_step_bytes_by_hand() -> None:
    weights = 1000.0
    token = kv_bytes_per_token(SMOL, 4.0)
    assert step_bytes(SMOL, weights, 4, 400.0, kv_element_bytes=4.0) == weights + 404 * token
    assert decode_step_bytes(SMOL, weights, 4, 400.0, 4.0) == weights + 404 * token
    chunk = step_bytes(SMOL, weights, 0, 0.0, prefill_tokens=16, prefill_context=32, kv_element_bytes=4.0)
    assert chunk == weights + 48 * token
    assert step_bytes(SMOL, weights, 0, 0.0) == 0.0


@given(st.integers(1, 64), st.integers(0, 3000))
def test_distinct_experts_are_bounded(experts: int, tokens: int) -> None:
    per_token = max(1, experts // 4)
    touched = touched_experts(experts, per_token, tokens)
    assert 0 <= touched <= experts
    assert touched <= per_token * tokens + 1e-9
    if tokens == 1:
        assert touched == pytest.approx(per_token)


def test_a_mixture_reads_only_touched_experts() -> None:
    assert touched_share(SMOL, 1) == 1.0
    counted = parameters(LATENT)
    read_at_one = touched_share(LATENT, 1) * (counted.total - counted.embedding)
    assert read_at_one == pytest.approx(counted.active - counted.embedding, rel=1e-9)
    assert touched_share(LATENT, 1) < touched_share(LATENT, 4) < touched_share(LATENT, 1000) <= 1.0


def test_weight_bytes_of_the_packaged_file() -> None:
    """Q4_1 matrices (5 bits), Q8_0 tied embedding (8.5 bits), f32 norms."""
    held = weight_bytes(SMOL, "q4_1", embedding="q8_0")
    matrices, table = 106_168_320, 28_311_552
    norms = 134_515_008 - matrices - table
    assert held.stored == held.per_step == matrices * 20 / 32 + table * 34 / 32 + norms * 4
    untied = weight_bytes({**SMOL, "tie_word_embeddings": False}, 16)
    assert untied.stored - untied.per_step == table * 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "lama"}, "did you mean 'llama'"),
        ({"model_type": "mamba"}, "Mamba"),
        ({"hidden_size": None}, "'hidden_size' is missing"),
        ({"num_key_value_heads": 4}, "cannot share"),
        ({"vocab_size": 0}, "'vocab_size' must be above 0"),
        ({"intermediate_size": "big"}, "'intermediate_size' must be a whole number"),
    ],
)
def test_what_cannot_be_counted_is_refused_in_words(change: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongInput, match=words):
        parameters({**SMOL, **change})
    with pytest.raises(WrongInput, match="unknown weight format"):
        weight_bytes(SMOL, "q9_9")
