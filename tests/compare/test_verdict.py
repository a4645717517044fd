from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rooftune.compare.effect import gain, measure_effect
from rooftune.compare.same_conditions import compare_conditions
from rooftune.compare.side_effects import side_effects, side_effects_of_runs
from rooftune.compare.verdict import goal_outcome, goal_verdict, overall, significant
from rooftune.spec.goal import Goal, parse_goal_expression
from rooftune.store.ledger import LedgerEntry
from rooftune.store.records import ChunkRecord, RequestRecord
from rooftune.store.result import QualityOutcome
from rooftune.store.run import Gate, Run, Series

GOALS = tuple(parse_goal_expression(g) for g in ("ttft_p95<=400ms", "tpot_p95<=40ms", "goodput>=2/s"))
GOOD_QUALITY = QualityOutcome(0.001, 0.002, 0.01, 0.99, 0.985, 2000, 0.0, True, "KL 0.001")


def judge(ratios: dict[str, list[float]], quality: QualityOutcome | None = GOOD_QUALITY, **more: Any) -> Any:
    outcomes, effects = {}, {}
    for goal in GOALS:
        after = ratios.get(goal.metric, [1.001, 0.999, 1.002, 0.998, 1.0, 1.001])
        base = {"ttft_p95": 0.5, "tpot_p95": 0.03, "goodput": 1.5}[goal.metric]
        outcomes[goal.metric], effects[goal.metric] = goal_outcome(
            goal, [base] * len(after), [base * r for r in after]
        )
    return overall(GOALS, outcomes, effects, quality=quality, **more)


BETTER = [0.6, 0.61, 0.62, 0.6, 0.63, 0.61]
WORSE = [1.6, 1.61, 1.62, 1.6, 1.63, 1.61]


def test_the_five_verdicts() -> None:
    assert judge({"ttft_p95": BETTER}).verdict == "improved"
    assert judge({}).verdict == "no effect"
    assert judge({"ttft_p95": WORSE}).verdict == "regressed"
    assert judge({"ttft_p95": [0.6, 1.4, 0.7, 1.3, 0.8, 1.2]}).verdict == "inconclusive"
    assert judge({"ttft_p95": BETTER}, invalid=["config_noop: slots"]).verdict == "invalid"
    assert (
        judge({"ttft_p95": BETTER[:3], "tpot_p95": [1.0] * 3, "goodput": [1.0] * 3}).verdict == "inconclusive"
    )


def test_quality_vetoes_and_must_be_known() -> None:
    bad = replace(GOOD_QUALITY, passed=False, statement="KL 0.5: outside")
    assert judge({"ttft_p95": BETTER}, bad).verdict == "regressed"
    assert judge({"ttft_p95": BETTER}, None).verdict == "inconclusive"
    assert judge({"ttft_p95": BETTER}, None, quality_required=False).verdict == "improved"


def test_a_goal_lost_is_a_regression_though_another_improved() -> None:
    mixed = judge({"ttft_p95": BETTER, "tpot_p95": WORSE})
    assert mixed.verdict == "regressed" and "p95 TPOT" in mixed.statement and "p95 TTFT" in mixed.statement
    kept = judge({"ttft_p95": BETTER, "tpot_p95": [1.2, 1.21, 1.2, 1.22, 1.2, 1.21]})
    assert kept.verdict == "improved" and "the price: p95 TPOT" in kept.statement


def test_one_sentence_without_numbers_of_nobody() -> None:
    said = judge({"ttft_p95": BETTER}).statement
    assert (
        said.startswith("Improved: p95 TTFT 1.6 times lower")
        and said.endswith("goals met.")
        and said.count(". ") == 0
    )


@pytest.mark.parametrize("rounds", [6, 12])
def test_a_against_a_is_called_improved_or_regressed_at_most_five_per_cent(rounds: int) -> None:
    random = np.random.default_rng(rounds)
    false, trials = 0, 400
    for _ in range(trials):
        noise = {g.metric: np.exp(random.standard_t(3, rounds) * 0.08).tolist() for g in GOALS}
        false += judge(noise).verdict in ("improved", "regressed")
    assert false <= stats.binom.ppf(0.999, trials, 0.05)


def test_holm_steps_down() -> None:
    strong = measure_effect("a", [1.0] * 6, [0.5, 0.51, 0.5, 0.49, 0.5, 0.5])
    weak = measure_effect("b", [1.0] * 6, [0.97, 1.0, 0.98, 0.99, 0.96, 0.99])
    assert weak.p_value is not None and 0.0125 < weak.p_value < 0.05
    assert significant({"b": weak}) == {"b"}
    assert significant({"a": strong, "b": weak}) == {"a", "b"}
    assert significant({"b": weak, "c": weak, "d": weak, "e": weak}) == set()


def test_shares_keep_a_ratio_where_there_is_one() -> None:
    goal = Goal("slo_attainment", ">=", 0.95, "share")
    outcome, effect = goal_outcome(goal, [0.5] * 6, [0.9, 0.91, 0.9, 0.89, 0.9, 0.9])
    assert effect.scale == "difference" and outcome.verdict == "improved"
    assert outcome.effect is not None and outcome.effect.value == pytest.approx(1.8, abs=0.01)
    none, _ = goal_outcome(goal, [0.0] * 6, [0.9] * 6)
    assert none.effect is None


def run(**changes: Any) -> Run:
    records = tuple(
        RequestRecord(
            index=i, scheduled_ns=0, sent_ns=0, end_ns=100, status=200,
            chunks=[ChunkRecord(50, "content", 1, 1)], prompt_tokens=100, output_tokens=20, cached_tokens=10,
        )
        for i in range(100)
    )  # fmt: skip
    values: dict[str, Any] = {
        "id": "r", "label": "", "started_at": "", "target": {"model": "m"}, "workload": {}, "schedule_hash": "h",
        "slo": {}, "price_per_second": None, "currency": None, "environment": {"cpu": "c"}, "roofs": None,
        "resolved": {"slots": 4, "batching": "static", "pool_tokens": 100, "pid": 1}, "ledger": (),
        "records": records, "begin_ns": 0, "end_ns": 100,
    }  # fmt: skip
    return Run(**{**values, **changes})


def kinds(changed: Run, change: dict[str, Any] | None) -> set[str]:
    return {p.kind for p in compare_conditions(run(), changed, change).problems if p.invalid}


def some(records: tuple[RequestRecord, ...], **changes: Any) -> tuple[RequestRecord, ...]:
    return tuple(replace(r, **changes) for r in records)


def test_planted_bad_comparisons_are_invalid() -> None:
    good = run(resolved={"slots": 8, "batching": "static", "pool_tokens": 100, "pid": 2})
    assert kinds(good, {"slots": 8}) == set()
    assert kinds(run(), {"slots": 8}) == {"config_noop"}
    assert kinds(run(), None) == {"config_noop"}
    assert kinds(run(), {}) == set()
    off = replace(good, ledger=(LedgerEntry("slots", 8, False, "never reached"),))
    assert kinds(off, {"slots": 8}) == {"config_noop"}
    assert kinds(replace(good, schedule_hash="x"), {"slots": 8}) == {"schedule"}
    assert kinds(replace(good, records=some(good.records, output_tokens=15)), {"slots": 8}) == {
        "output_lengths"
    }
    assert kinds(replace(good, records=some(good.records, prompt_tokens=120)), {"slots": 8}) == {
        "prompt_tokens"
    }
    warm = replace(good, records=some(good.records, cached_tokens=96))
    assert kinds(warm, {"slots": 8}) == {"cache_state"}
    assert kinds(replace(good, target={"model": "other"}), {"slots": 8}) == {"model"}
    assert kinds(replace(good, environment={"cpu": "d"}), {"slots": 8}) == {"environment"}
    failing = good.records[:80] + some(good.records[80:], error="status_500")
    assert kinds(replace(good, records=failing), {"slots": 8}) == {"errors"}
    assert kinds(replace(good, gates=(Gate("client", False, 1, 0, "late"),)), {"slots": 8}) == {"gates"}
    pool = replace(good, resolved={"slots": 8, "batching": "static", "pool_tokens": 999})
    assert kinds(pool, {"slots": 8}) == {"pool"}


def test_two_changes_at_once_are_told() -> None:
    both = run(resolved={"slots": 8, "batching": "continuous", "pool_tokens": 100})
    notices = compare_conditions(run(), both, {"slots": 8}).notices
    assert any("batching: static -> continuous" in n for n in notices)


def test_side_effects_name_what_got_worse_and_not_the_goals() -> None:
    rounds = {
        "ttft_p95": ([1.0] * 6, WORSE),
        "tpot_p99": ([1.0] * 6, WORSE),
        "e2e_p50": ([1.0] * 6, BETTER),
        "itl_p99": ([1.0] * 6, [1.0, 1.9, 0.8, 1.7, 0.9, 1.5]),
        "output_tokens_per_second": ([1.0] * 6, BETTER),
    }
    found = {s.metric: s.certain for s in side_effects(rounds, goals=["ttft_p95"])}
    assert found.get("tpot_p99") is True and found.get("output_tokens_per_second") is True
    assert "e2e_p50" not in found and "ttft_p95" not in found and found.get("itl_p99") is not True


def test_memory_and_errors_are_side_effects() -> None:
    base = run(series=(Series("server_memory", "bytes", (1, 2), (100e6, 110e6)),))
    more = run(
        series=(Series("server_memory", "bytes", (1, 2), (100e6, 180e6)),),
        records=some(run().records, error="timeout"),
    )
    metrics = {s.metric for s in side_effects_of_runs([base], [more])}
    assert metrics == {"memory", "errors"}


def test_one_goal_by_itself_needs_its_whole_interval_on_one_side() -> None:
    goal = GOALS[0]
    noisy = measure_effect(goal.metric, [1.0] * 6, [0.6, 1.35, 0.7, 1.3, 0.8, 1.1])
    assert gain(noisy, goal.sign).low < 0 < gain(noisy, goal.sign).high
    assert goal_verdict(goal, noisy) == "inconclusive"
    assert goal_verdict(goal, measure_effect(goal.metric, [1.0] * 6, BETTER)) == "improved"
    assert goal_verdict(goal, measure_effect(goal.metric, [1.0] * 6, WORSE)) == "regressed"
