"""Goals that physics forbids are refused with their numbers; goals that it allows are not."""

from __future__ import annotations

from typing import Any

import pytest

from rooftune.hardware.floor import check_goals, lowest_tpot, lowest_ttft
from rooftune.hardware.roofs import Bandwidth, Roofs
from rooftune.spec import parse_spec

ROOFS = Roofs(
    bandwidth=(Bandwidth(1 << 20, 50e9), Bandwidth(1 << 26, 10e9)),
    flops={"f32_fma": 50e9, "int8_dot": 100e9},
    threads=2,
    isa="avx2",
    cpu="test",
    measured_at="2026-01-01T00:00:00+00:00",
)
FACTS: dict[str, Any] = {
    "weight_bytes": 100e6,
    "kv_bytes_per_token": 46080.0,
    "config": {
        "model_type": "llama",
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "vocab_size": 49152,
        "tie_word_embeddings": True,
    },
}


def problems(
    goals: dict[str, Any] | None = None, slo: dict[str, str] | None = None, **more: Any
) -> list[str]:
    raw = {
        "model": "smollm2-135m",
        "goals": goals or {},
        "slo": slo or {},
        "workload": {
            "arrivals": {"process": "poisson", "rate": "4/s"},
            "prompts": more.pop("prompts", {"source": "synthetic", "input_tokens": 512, "output_tokens": 64}),
        },
        **more,
    }
    return check_goals(parse_spec(raw), FACTS, ROOFS)


def test_floors_by_hand() -> None:
    step = lowest_tpot(FACTS, ROOFS)
    assert step.bytes == 100e6 + 46080
    assert step.seconds == pytest.approx(step.bytes / 10e9)
    assert "10 GB/s" in step.why
    prompt = lowest_ttft(FACTS, ROOFS, 512)
    linear = 2 * 106_168_320 * 512 + 2 * 49152 * 576
    attention = 30 * 9 * 4 * 64 * (512 * 513 // 2)
    assert prompt.flops == linear + attention
    assert prompt.seconds == pytest.approx(prompt.flops / 100e9)
    assert "GFLOP" in prompt.why
    assert lowest_ttft(FACTS, ROOFS, 512, 511).seconds < 0.02, "a cached prompt costs about one step"


def test_reachable_goals_pass() -> None:
    assert (
        problems({"ttft_p95": "<= 3s", "tpot_p50": "<= 15ms", "slo_attainment": ">= 95%"}, {"ttft": "2s"})
        == []
    )


@pytest.mark.parametrize(
    ("goals", "slo", "words"),
    [
        ({"tpot_p95": "<= 5ms"}, {}, ["tpot_p95 <= 5 ms", "10 ms", "MB", "GB/s"]),
        ({"itl_p50": "<= 1ms"}, {}, ["itl_p50"]),
        ({"ttft_mean": "<= 500ms"}, {}, ["ttft_mean <= 500 ms", "1.18 s", "GFLOP"]),
        ({"e2e_p50": "<= 1.5s"}, {}, ["e2e_p50", "63 decode steps"]),
        ({}, {"tpot": "1ms"}, ["slo tpot <= 1 ms"]),
        (
            {"output_tokens_per_second": ">= 1000/s"},
            {},
            ["output_tokens_per_second", "above the roof", "a token"],
        ),
        ({"requests_per_second": ">= 2/s"}, {}, ["requests_per_second", "above the roof", "a request"]),
    ],
)
def test_goals_beyond_physics_are_refused_with_numbers(goals: Any, slo: Any, words: list[str]) -> None:
    (line,) = problems(goals, slo)
    for word in words:
        assert word in line


def test_more_than_the_offered_load_is_refused() -> None:
    prompts = {"source": "builtin:chat", "output_tokens": 1}
    (line,) = problems({"goodput": ">= 5/s"}, {"ttft": "2s"}, prompts=prompts)
    assert "offered load, 4/s" in line


def test_a_cost_below_the_roof_is_refused() -> None:
    price = {"amount": 3.6, "currency": "USD", "per": "hour"}
    (line,) = problems({"cost_per_million_output_tokens": "<= 0.1"}, price=price)
    assert "cost_per_million_output_tokens" in line and "output tokens/s" in line
    assert problems({"cost_per_million_output_tokens": "<= 100"}, price=price) == []


def test_shared_prefixes_may_be_cached_so_their_prompts_are_not_refused() -> None:
    prompts = {"source": "builtin:chat", "input_tokens": 512, "output_tokens": 64}
    assert problems({"ttft_mean": "<= 500ms"}, prompts=prompts) == []
    (line,) = problems({"ttft_mean": "<= 1ms"}, prompts=prompts)
    assert "1 prompt token" in line
