from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rooftune.diagnose.catalogue import CAUSES, not_judged
from rooftune.diagnose.causes import JUDGES
from rooftune.diagnose.causes.weigh import Piece, weigh
from rooftune.diagnose.diagnose import diagnose
from rooftune.diagnose.experiments import EXPERIMENTS, investigate
from rooftune.diagnose.facts import gather
from rooftune.diagnose.finding import Evidence
from rooftune.diagnose.planted import PLANTED, SimulatedBench, draw
from rooftune.diagnose.step_model import fit_steps
from rooftune.diagnose.time_split import time_split
from rooftune.engine.contracts import EngineConfig
from rooftune.spec.goal import parse_goal_expression
from tests.diagnose.scale import renamed, scaled


@pytest.mark.parametrize("factor", [1e-3, 17.0])
@pytest.mark.parametrize("cause", sorted(PLANTED))
def test_scaling_all_times_and_renaming_changes_nothing(cause: str, factor: float) -> None:
    run = draw(cause, 3).run()
    original = diagnose(run)
    other = diagnose(renamed(scaled(run, factor)))
    assert other.primary == original.primary
    for finding in original.findings:
        same = other.finding(finding.cause)
        assert same is not None and same.status == finding.status
        assert same.share == pytest.approx(finding.share, abs=1e-3)


def test_every_judged_cause_is_in_the_list_and_the_rest_is_told() -> None:
    assert set(JUDGES) < set(CAUSES)
    assert {"queue_slots", "overload", "decode_bandwidth", "prefill_compute", "launch_overhead"} <= set(
        JUDGES
    )
    untold = not_judged(frozenset(JUDGES))
    assert "kv_thrash" in untold and not set(untold) & set(JUDGES)


def test_two_independent_pieces_are_needed() -> None:
    one = [Piece("gauges", "for", "a")]
    assert weigh("overload", one, 0.8).status == "unknown"
    assert weigh("overload", [*one, Piece("gauges", "for", "b")], 0.8).status == "unknown"
    assert weigh("overload", [*one, Piece("timings", "for", "b")], 0.8).status == "supported"
    assert weigh("overload", [*one, Piece("timings", "against", "b")], 0.8).status == "refuted"
    assert weigh("overload", [*one, Piece("timings", "for", "b")], 0.05).status == "refuted"
    contested = [Piece("experiment low_load", "for", "a"), Piece("gauges", "against", "b")]
    assert weigh("overload", contested, 0.8).status == "unknown"
    assert weigh("overload", [], None).status == "unknown"


def test_without_roofs_bandwidth_and_overhead_stay_unknown() -> None:
    for cause in ("decode_bandwidth", "launch_overhead"):
        diagnosis = diagnose(replace(draw(cause, 5).run(), roofs=None))
        assert diagnosis.primary == "unknown"
        assert any("roofs" in m for m in diagnosis.missing)
        assert diagnosis.next_step


def test_without_a_step_log_and_timings_it_says_what_is_missing() -> None:
    run = draw("prefill_compute", 5).run()
    bare = replace(run, steps=(), records=tuple(replace(r, server_timings=None) for r in run.records))
    diagnosis = diagnose(bare)
    assert diagnosis.primary == "unknown" and diagnosis.missing


def test_a_run_without_answers_gives_no_primary() -> None:
    run = draw("healthy", 5).run()
    dead = replace(run, records=tuple(replace(r, error="connect", chunks=[]) for r in run.records))
    assert diagnose(dead).primary is None


def test_missed_goals_are_not_healthy() -> None:
    case = draw("healthy", 5)
    assert diagnose(case.run()).primary == "healthy"
    run = replace(case.run(), slo={"tpot": 1e-6})
    assert diagnose(run).primary != "healthy"
    goal = parse_goal_expression("tpot_p95<=1us")
    from rooftune.store.run import MetricValue

    with_metric = replace(case.run(), metrics=(MetricValue("tpot_p95", 0.01, "s"),))
    assert diagnose(with_metric, goals=(goal,)).primary != "healthy"


def test_experiments_need_leave() -> None:
    case = draw("queue_slots", 4)
    case.bench.permissions = frozenset({"load"})
    facts = gather(case.run())
    assert EXPERIMENTS["slots_x2"].refused(case.bench, facts) == "needs leave to restart"
    assert EXPERIMENTS["low_load"].refused(case.bench, facts) is None
    _, outcomes = investigate(case.run(), case.bench)
    assert "slots_x2" not in outcomes


def test_reasoning_is_told_with_the_signature_before_the_outcome() -> None:
    lines: list[str] = []

    class Listener:
        def say(self, line: str) -> None:
            lines.append(line)

        def begin(self, what: str, seconds: float | None = None) -> None: ...

        def advance(self, share: float) -> None: ...

        def end(self) -> None: ...

    case = draw("queue_slots", 4)
    investigate(case.run(), case.bench, progress=Listener())
    first = next(i for i, line in enumerate(lines) if line.startswith("experiment"))
    assert "Expected if" in lines[first] and "observed" in lines[first + 1]


def test_the_step_model_finds_its_coefficients() -> None:
    case = draw("decode_bandwidth", 2)
    model = case.bench.machine.step_model()
    fitted = fit_steps(case.run().steps)
    assert fitted is not None and fitted.separable
    rows = gather(case.run()).decode_rows
    assert rows is not None
    assert fitted.base == pytest.approx(model.base, rel=0.15)
    assert fit_steps(case.run().steps[:5]) is None


def test_doubling_is_worth_much_only_where_base_dominates() -> None:
    slots, overload = gather(draw("queue_slots", 4).run()), gather(draw("overload", 4).run())
    gain = overload.gain_of_doubling()
    assert gain is not None and gain < 1.15
    other = slots.gain_of_doubling()
    assert other is None or other > 1.3


@pytest.mark.parametrize("cause", sorted(PLANTED))
def test_parts_of_the_time_split_add_up(cause: str) -> None:
    run = draw(cause, 6).run()
    split = time_split(run)
    json.dumps(split)
    for name in ("decode_step", "ttft", "tpot"):
        one = split[name]
        assert sum(p["seconds"] for p in one["parts"]) == pytest.approx(one["measured"])
        assert all(
            p["seconds"] >= 0 and p["kind"] in ("measured", "computed", "inferred") for p in one["parts"]
        )


def test_planted_overhead_lands_in_its_bar() -> None:
    """An overhead of d per step raises the part above the roof by d and leaves the computed parts where they were."""
    case = draw("decode_bandwidth", 7)
    case.bench.machine = replace(case.bench.machine, noise=0.0, efficiency=1.0)
    config = EngineConfig(slots=4, pool_tokens=1 << 20)
    delta = 3.0 * case.bench.machine.weight_bytes / case.bench.machine.bandwidth
    splits = []
    for overhead in (0.0, delta):
        bench = SimulatedBench(replace(case.bench.machine, overhead=overhead), config, [])
        splits.append(time_split(bench.burst(16, 50, 40, 4)))
    parts = [{p["name"]: p["seconds"] for p in s["parts"]} for s in splits]
    assert parts[0]["reading weights"] == pytest.approx(parts[1]["reading weights"])
    grown = sum(v for k, v in parts[1].items() if k in ("forward pass above the roof", "unexplained")) - sum(
        v for k, v in parts[0].items() if k in ("forward pass above the roof", "unexplained")
    )
    assert grown == pytest.approx(delta, rel=0.1)
    assert parts[0]["unexplained"] <= 0.1 * splits[0]["measured_step"]


def test_ttft_splits_into_queue_and_prefill() -> None:
    run = draw("queue_slots", 4).run()
    split = time_split(run)["ttft"]
    parts = {p["name"]: p["seconds"] for p in split["parts"]}
    assert parts["queue"] > parts["prefill"]
    told = replace(run, records=tuple(replace(r, server_timings=None) for r in run.records))
    assert time_split(told)["ttft"]["reason"]


def test_evidence_is_read_only_through_judges_of_the_same_shape() -> None:
    evidence = Evidence(draw("overload", 4).run())
    for cause, judge in JUDGES.items():
        finding = judge(evidence)
        assert finding.cause == cause and finding.status in ("supported", "refuted", "unknown")
        assert finding.share is None or 0.0 <= finding.share <= 1.0
