"""Facts of a run against values worked out by hand; what was not measured is None."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rooftune.store.records import ChunkRecord, RequestRecord
from rooftune.store.run import MetricValue, Run, Series
from rooftune.techniques.facts import FACTS, facts_from_run


def record(index: int, prompt: int | None, output: int, queue: float) -> RequestRecord:
    chunks = [ChunkRecord(10 + i, "content", 1, 1) for i in range(output)]
    return RequestRecord(
        index=index, scheduled_ns=index * 500_000_000, end_ns=100, chunks=chunks, prompt_tokens=prompt,
        output_tokens=output, cached_tokens=16, server_timings={"queue": queue, "prefill": 0.1, "decode": 0.4},
    )  # fmt: skip


STEPS: tuple[dict[str, float], ...] = (
    {"seconds": 0.3, "prefill_tokens": 100, "prefill_context": 5050, "decode_rows": 0, "decode_context": 0,
     "context_tokens": 5050, "running": 1, "waiting": 3, "used_pages": 10},
    {"seconds": 0.1, "prefill_tokens": 0, "prefill_context": 0, "decode_rows": 2, "decode_context": 200,
     "context_tokens": 200, "running": 2, "waiting": 0, "used_pages": 20},
    {"seconds": 0.1, "prefill_tokens": 10, "prefill_context": 55, "decode_rows": 2, "decode_context": 202,
     "context_tokens": 257, "running": 3, "waiting": 0, "used_pages": 40},
)  # fmt: skip
CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
    "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": True,
}  # fmt: skip
RUN = Run(
    id="r", label="", started_at="", target={"url": "http://127.0.0.1:8000/v1"}, workload={"process": "poisson", "rate": None, "shared_prefix_share": 0.4},
    schedule_hash="h", slo={}, price_per_second=None, currency=None, environment={"memory_bytes": 1e9}, roofs=None,
    resolved={"slots": 4, "token_budget": 256, "pool_tokens": 1600, "page_size": 16, "threads": 2,
              "model": {"weight_bytes": 1e8, "kv_bytes_per_token": 46080, "config": CONFIG}},
    ledger=(), records=(record(0, 100, 3, 0.2), record(1, 200, 5, 0.4), record(2, None, 4, 0.0)),
    begin_ns=0, end_ns=1_000_000_000, counters={"prefix_query_tokens": 400, "prefix_hit_tokens": 100, "preemptions": 2},
    steps=STEPS,
    metrics=(MetricValue("tpot_p50", 0.02, "s"), MetricValue("tpot_p95", 0.05, "s"),
             MetricValue("mbu", None, "share", reason="no roofs")),
)  # fmt: skip


def test_by_hand() -> None:
    facts = facts_from_run(RUN)
    assert facts["running_mean"] == pytest.approx((0.3 * 1 + 0.1 * 2 + 0.1 * 3) / 0.5)
    assert facts["waiting_mean"] == pytest.approx(1.8)
    assert (facts["running_max"], facts["waiting_max"]) == (3, 3)
    assert facts["busy_share"] == pytest.approx(0.5)
    assert facts["service_capacity"] == pytest.approx(6.0)
    assert facts["arrival_rate"] == pytest.approx(2.0)
    assert facts["utilisation"] == pytest.approx(1 / 3)
    assert facts["queue_mean"] == pytest.approx(0.2)
    assert facts["prompt_tokens_mean"] == 150 and facts["prompt_tokens_max"] == 200
    assert facts["output_tokens_mean"] == 4
    assert facts["decode_step_seconds"] == pytest.approx(0.1)
    assert facts["decode_context_mean"] == 100
    assert facts["prefill_seconds_per_token"] == pytest.approx(0.003)
    assert facts["prefill_time_share"] == pytest.approx(0.8)
    assert facts["prefill_step_max"] == pytest.approx(0.3)
    assert facts["kv_used_max"] == pytest.approx(40 * 16 / 1600)
    assert facts["prefix_hit_share"] == 0.25
    assert facts["preemptions"] == 2
    assert facts["tpot_tail"] == pytest.approx(2.5)
    read = 2 * 100 * 46080
    assert facts["decode_kv_share"] == pytest.approx(read / (read + 1e8))
    assert facts["weights_memory_share"] == pytest.approx(0.1)
    assert facts["shared_prefix_share"] == 0.4
    assert facts["mbu"] is None


def test_names_are_the_documented_ones() -> None:
    assert set(facts_from_run(RUN)) == set(FACTS)


def test_a_server_that_tells_nothing_leaves_nothing_made_up() -> None:
    bare = replace(
        RUN, resolved=None, steps=(), counters={}, records=(), metrics=(), workload={}, environment={}
    )
    assert all(value is None for value in facts_from_run(bare).values())


def test_a_client_s_memory_is_not_the_server_s() -> None:
    away = facts_from_run(replace(RUN, target={"url": "http://gpu.example:8000/v1"}))
    assert away["memory_bytes"] is None and away["weights_memory_share"] is None
    known = facts_from_run(replace(RUN, target={}, roofs={"threads": 64}))
    assert known["cores"] == 64 and known["memory_bytes"] == 1e9


def test_gauges_stand_in_for_the_step_log() -> None:
    series = (Series("running", "requests", (1, 2), (2.0, 4.0)), Series("kv_used", "share", (1,), (0.7,)))
    facts = facts_from_run(replace(RUN, steps=(), series=series))
    assert (facts["running_mean"], facts["running_max"], facts["kv_used_max"]) == (3.0, 4.0, 0.7)
    assert facts["waiting_mean"] is None and facts["decode_step_seconds"] is None


def test_a_closed_loop_has_no_arrival_rate() -> None:
    facts = facts_from_run(replace(RUN, workload={"process": "concurrency", "rate": None}))
    assert facts["arrival_rate"] is None and facts["utilisation"] is None
