"""Each metric against an answer known in advance, and the laws that hold for any records."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooftune.metrics.contract import MetricContext
from rooftune.metrics.percentile import minimum_sample, order_bounds, quantile
from rooftune.metrics.pool import pooled
from rooftune.metrics.registry import METRICS, compute, compute_all
from rooftune.spec import GOAL_DIMENSIONS
from rooftune.store.records import ChunkRecord, RequestRecord

MS = 1_000_000


def record(
    index: int = 0,
    *,
    scheduled: int = 0,
    lag: int = 1 * MS,
    ttft: int = 100 * MS,
    gaps: tuple[int, ...] = (10 * MS,) * 4,
    tokens: int | None = None,
    per_chunk: int | None = 1,
    error: str | None = None,
) -> RequestRecord:
    times = [scheduled + ttft]
    for gap in gaps:
        times.append(times[-1] + gap)
    chunks = [ChunkRecord(scheduled + ttft // 2, "role", 50)]
    chunks += [ChunkRecord(t, "content", 60, tokens=per_chunk) for t in times]
    count = (per_chunk or 1) * len(times) if tokens is None else tokens
    return RequestRecord(
        index=index,
        scheduled_ns=scheduled,
        sent_ns=scheduled + lag,
        end_ns=times[-1] + 1 * MS,
        status=200,
        error=error,
        chunks=chunks,
        prompt_tokens=50,
        prompt_tokens_source="usage",
        output_tokens=count,
        output_tokens_source="usage",
    )


def context(records: list[RequestRecord], seconds: float = 10.0, **more: object) -> MetricContext:
    return MetricContext(records=records, begin_ns=0, end_ns=round(seconds * 1e9), **more)  # type: ignore[arg-type]


def value(name: str, given: MetricContext) -> float:
    found = compute(name, given).value
    assert found is not None, compute(name, given).reason
    return found


def test_every_name_that_a_goal_may_carry_is_a_metric() -> None:
    assert set(GOAL_DIMENSIONS) <= set(METRICS)
    assert "send_lag_p99" in METRICS


def test_ttft_counts_from_the_scheduled_time_and_ignores_the_role_chunk() -> None:
    records = [record(i, ttft=(i + 1) * MS * 10, lag=7 * MS) for i in range(9)]
    assert value("ttft_p50", context(records)) == pytest.approx(0.050)
    assert value("ttft_mean", context(records)) == pytest.approx(0.050)
    assert value("send_lag_p50", context(records)) == pytest.approx(0.007)


def test_tpot_leaves_the_first_token_out() -> None:
    records = [record(i, ttft=900 * MS, gaps=(10 * MS, 20 * MS, 30 * MS)) for i in range(5)]
    assert value("tpot_p50", context(records)) == pytest.approx(0.020)
    assert value("e2e_p50", context(records)) == pytest.approx(0.961)


def test_a_chunk_of_k_tokens_gives_k_gaps_of_a_kth_only_where_k_is_known() -> None:
    bundled = [record(i, gaps=(40 * MS,) * 3, per_chunk=4) for i in range(5)]
    assert value("itl_p50", context(bundled)) == pytest.approx(0.010)
    assert value("itl_mean", context(bundled)) == pytest.approx(0.010)
    assert value("chunk_gap_p50", context(bundled)) == pytest.approx(0.040)
    unknown = [record(i, gaps=(40 * MS,) * 3, per_chunk=None) for i in range(5)]
    refused = compute("itl_p50", context(unknown))
    assert refused.value is None and refused.reason is not None and "chunk_gap" in refused.reason
    assert value("chunk_gap_max", context(unknown)) == pytest.approx(0.040)


def test_itl_weights_gaps_by_their_tokens() -> None:
    mixed = record(gaps=(10 * MS,) * 10)
    mixed.chunks.append(ChunkRecord(mixed.chunks[-1].arrival_ns + 300 * MS, "content", 60, tokens=30))
    # 10 gaps of 10 ms for one token each, 30 tokens of 10 ms each: every token took 10 ms.
    assert value("itl_mean", context([mixed])) == pytest.approx(0.010)


def test_throughput_and_cost() -> None:
    records = [record(i) for i in range(20)]
    given = context(records, seconds=10.0, price_per_second=0.01)
    assert value("requests_per_second", given) == pytest.approx(2.0)
    assert value("output_tokens_per_second", given) == pytest.approx(10.0)
    assert value("input_tokens_per_second", given) == pytest.approx(100.0)
    assert value("total_tokens_per_second", given) == pytest.approx(110.0)
    # 0.1 for 100 tokens.
    assert value("cost_per_million_output_tokens", given) == pytest.approx(1000.0)


def test_failures_are_misses_and_rank_behind_every_answer() -> None:
    records = [record(i) for i in range(90)] + [
        record(90 + i, error="status_429", gaps=()) for i in range(10)
    ]
    given = context(records, slo={"ttft": 0.2})
    assert value("slo_attainment", given) == pytest.approx(0.9)
    assert value("goodput", given) == pytest.approx(9.0)
    assert value("error_rate", given) == pytest.approx(0.1)
    assert value("ttft_p50", given) == pytest.approx(0.1)
    lost = compute("ttft_p95", given)
    assert lost.value is None and lost.reason is not None and "failed" in lost.reason


def test_requests_cut_by_the_stop_of_the_run_count_neither_way() -> None:
    records = [record(i) for i in range(10)] + [record(10, error="interrupted")]
    assert value("error_rate", context(records)) == 0.0


def test_each_slo_bound_is_judged() -> None:
    given = [record(0, ttft=100 * MS, gaps=(10 * MS, 50 * MS))]
    for name, meets, misses in (
        ("ttft", 0.1, 0.09),
        ("tpot", 0.03, 0.029),
        ("itl", 0.05, 0.04),
        ("e2e", 0.17, 0.1),
    ):
        assert value("slo_attainment", context(given, slo={name: meets})) == 1.0
        assert value("slo_attainment", context(given, slo={name: misses})) == 0.0


def test_what_is_missing_is_none_with_a_reason_never_zero() -> None:
    for metric in compute_all(context([])):
        if metric.name == "requests_per_second" or metric.name.endswith("tokens_per_second"):
            assert metric.value == 0.0
            continue
        assert metric.value is None and metric.reason, metric.name
    untold = record(0)
    untold.output_tokens = None
    assert compute("output_tokens_per_second", context([untold])).value is None


@pytest.mark.parametrize(("share", "needed"), [(0.5, 5), (0.9, 29), (0.95, 59), (0.99, 299)])
def test_percentiles_are_refused_below_their_sample(share: float, needed: int) -> None:
    assert minimum_sample(share) == needed
    assert order_bounds(needed - 1, share)[1] is None
    assert order_bounds(needed, share)[1] == needed - 1
    name = f"ttft_p{share * 100:.0f}"
    refused = compute(name, context([record(i) for i in range(needed - 1)]))
    assert refused.value is None and str(needed) in str(refused.reason)
    assert compute(name, context([record(i) for i in range(needed)])).value is not None


def test_order_bounds_hold_the_true_percentile_as_often_as_they_say() -> None:
    generator = np.random.default_rng(5)
    low, high = order_bounds(200, 0.9)
    assert low is not None and high is not None
    samples = np.sort(generator.random((4000, 200)), axis=1)
    # The order statistics are discrete, so each bound covers at least 95 %, and not much more.
    assert 0.945 < (samples[:, low] <= 0.9).mean() < 0.985
    assert 0.945 < (samples[:, high] >= 0.9).mean() < 0.985


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_quantile_agrees_with_numpy(values: list[float], share: float) -> None:
    ordered = np.sort(np.asarray(values))
    assert quantile(ordered, share) == pytest.approx(float(np.quantile(ordered, share)), abs=1e-9)


records_strategy = st.lists(
    st.builds(
        lambda scheduled, ttft, gaps, error, k: record(
            scheduled=scheduled * MS,
            ttft=ttft * MS,
            gaps=tuple(g * MS for g in gaps),
            error=error,
            per_chunk=k,
        ),
        st.integers(0, 5000),
        st.integers(1, 900),
        st.lists(st.integers(0, 200), max_size=6),
        st.sampled_from([None, None, None, "timeout"]),
        st.sampled_from([None, 1, 3]),
    ),
    min_size=1,
    max_size=80,
)


@settings(max_examples=40, deadline=None)
@given(records_strategy, st.randoms(use_true_random=False))
def test_laws(records: list[RequestRecord], shuffle: random.Random) -> None:
    given = context(records, seconds=10.0, slo={"ttft": 0.4, "tpot": 0.05})
    values = {m.name: m for m in compute_all(given)}
    for family in ("ttft", "tpot", "itl", "chunk_gap", "e2e", "send_lag"):
        found = [v for p in ("p50", "p90", "p95", "p99") if (v := values[f"{family}_{p}"].value) is not None]
        assert found == sorted(found)
    for metric in values.values():
        if metric.value is not None:
            assert metric.low is None or metric.low <= metric.value
            assert metric.high is None or metric.high >= metric.value
    rate, good = values["requests_per_second"].value, values["goodput"].value
    assert rate is not None and good is not None
    assert rate * 10.0 == pytest.approx(sum(r.succeeded for r in records))
    assert good <= rate + 1e-12
    mixed = list(records)
    shuffle.shuffle(mixed)
    for metric in compute_all(context(mixed, seconds=10.0, slo={"ttft": 0.4, "tpot": 0.05})):
        before = values[metric.name].value
        assert (before is None) == (metric.value is None)
        if before is not None:
            assert metric.value == pytest.approx(before)


def test_pooled_runs_join_their_requests_and_add_their_durations() -> None:
    first = context([record(i) for i in range(30)], seconds=5.0)
    second = context([record(i, ttft=300 * MS) for i in range(30)], seconds=15.0)
    assert compute("ttft_p95", first).value is None
    both = pooled([first, second])
    assert value("ttft_p95", both) == pytest.approx(0.3)
    assert value("requests_per_second", both) == pytest.approx(3.0)
    with pytest.raises(ValueError, match="SLO"):
        pooled([first, context([], slo={"ttft": 1.0})])


MODEL = {
    "weight_bytes": 1_000_000,
    "kv_bytes_per_token": 2 * 2 * 2 * 8 * 2.0,
    "config": {
        "model_type": "llama",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "vocab_size": 100,
        "tie_word_embeddings": True,
    },
}
ROOFS = {
    "bandwidth": [{"bytes": 1 << 20, "bytes_per_second": 1e9}],
    "flops": {"f32_fma": 1e9},
    "threads": 1,
    "isa": "test",
    "cpu": "test",
    "measured_at": "2026-01-01T00:00:00+00:00",
}


def test_mbu_is_bytes_that_steps_must_move_over_the_probed_bandwidth() -> None:
    steps = tuple(
        {"begin_ns": 0.0, "seconds": 0.01, "prefill_tokens": 0.0, "decode_rows": 1.0, "context_tokens": 10.0}
        for _ in range(5)
    )
    given = context([record(0)], model=MODEL, roofs=ROOFS, steps=steps)
    # A step reads 1 MB of weights and 10 tokens of KV and writes one token: 1,000,000 + 11 × 128 bytes in 10 ms.
    assert value("mbu", given) == pytest.approx((1_000_000 + 11 * 128) / 0.01 / 1e9)


def test_mfu_counts_useful_operations_only() -> None:
    steps = (
        {"begin_ns": 0.0, "seconds": 0.1, "prefill_tokens": 50.0, "decode_rows": 0.0, "context_tokens": 0.0},
    )
    whole = value("mfu", context([record(0)], model=MODEL, roofs=ROOFS, steps=steps))
    # Per token: 2 layers × (q 32×32, k and v 2×32×16, o 32×32, gate, up, down 3×32×64) weights, 2 operations each.
    body = 2 * (32 * 32 * 2 + 2 * 32 * 16 + 3 * 32 * 64)
    tokens, sampled = 50 + 4, 5
    pairs = sum(range(1, tokens + 1))
    attention = 2 * 2 * 4 * (8 + 8) * pairs
    expected = (2 * body * tokens + 2 * 32 * 100 * sampled + attention) / (0.1 * 1e9)
    assert whole == pytest.approx(expected, rel=1e-6)
    hit = record(0)
    hit.cached_tokens = 40
    assert value("mfu", context([hit], model=MODEL, roofs=ROOFS, steps=steps)) < whole


def test_utilization_of_an_unknown_device_is_none() -> None:
    for name in ("mfu", "mbu"):
        found = compute(name, context([record(0)], model=MODEL, roofs=None, steps=({"seconds": 0.1},)))
        assert found.value is None and found.reason is not None and "roofs" in found.reason
        assert not math.isnan(found.value or 0.0)
