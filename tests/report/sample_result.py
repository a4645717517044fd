"""Results as `rooftune optimize` writes them, for the tests of the reports. Every number here is made up."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

from rooftune.store.result import (
    Bottleneck,
    CostOutcome,
    GoalOutcome,
    Interval,
    Prediction,
    QualityOutcome,
    Result,
    RunSummary,
    TechniqueOutcome,
)

BASELINE = {
    "batching": "dynamic", "slots": 4, "batch_wait": 0.05, "prefix_cache": "none", "chunked_prefill": False,
    "weight_kernel": "packed", "token_budget": 256,
}  # fmt: skip
FINAL = {**BASELINE, "batching": "continuous", "slots": 12, "prefix_cache": "hash"}
DEFAULTS = {
    **BASELINE,
    "batching": "continuous",
    "slots": 16,
    "prefix_cache": "hash",
    "chunked_prefill": True,
}
GATES = ("send_lag", "errors", "requests_enough", "output_lengths", "prefix_reset", "client_load")


def latencies(middle: float, spread: float, seed: int, count: int = 400) -> list[float]:
    """Sorted log-normal values with the given median, seconds."""
    draw = random.Random(seed)
    return sorted(middle * math.exp(spread * draw.gauss(0, 1)) for _ in range(count))


def _quantile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))]


def _latency() -> dict[str, dict[str, list[float]]]:
    return {
        "baseline": {"ttft": latencies(0.82, 0.62, 1), "tpot": latencies(0.071, 0.12, 2), "e2e": latencies(3.3, 0.3, 3)},
        "final": {"ttft": latencies(0.23, 0.55, 4), "tpot": latencies(0.088, 0.16, 5), "e2e": latencies(2.9, 0.22, 6)},
        "defaults": {"ttft": latencies(0.25, 0.58, 7), "tpot": latencies(0.094, 0.2, 8), "e2e": latencies(3.1, 0.24, 9)},
    }  # fmt: skip


def _table(latency: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, float | None]]:
    table: dict[str, dict[str, float | None]] = {}
    for family in ("ttft", "tpot", "e2e"):
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95)):
            table[f"{family}_{name}"] = {arm: _quantile(latency[arm][family], share) for arm in latency}
    table["ttft_p99"] = {"baseline": None, "final": None, "defaults": None}
    table["slo_attainment"] = {"baseline": 0.631, "final": 0.9826, "defaults": 0.9715}
    table["goodput"] = {"baseline": 0.84, "final": 1.31, "defaults": 1.29}
    table["output_tokens_per_second"] = {"baseline": 41.3, "final": 42.4, "defaults": 42.1}
    table["requests_per_second"] = {"baseline": 1.29, "final": 1.33, "defaults": 1.32}
    table["error_rate"] = {"baseline": 0.0, "final": 0.0, "defaults": 0.0}
    table["mfu"] = {"baseline": 0.31, "final": 0.36, "defaults": 0.36}
    table["mbu"] = {"baseline": 0.22, "final": 0.19, "defaults": 0.19}
    table["cost_per_million_output_tokens"] = {"baseline": 0.672, "final": 0.655, "defaults": 0.66}
    return table


def _techniques() -> list[TechniqueOutcome]:
    return [
        TechniqueOutcome(
            name="continuous_batching",
            title="Continuous batching",
            decision="accepted",
            reason="TTFT p95 fell by more than the noise in all 6 confirming rounds; taking it out again costs a factor of 2.1",
            change={"batching": "continuous"},
            predicted=[
                Prediction("ttft_p95", 0.25, 0.70, "simulated with measured step times", True),
                Prediction("tpot_p95", 1.00, 1.35, "simulated with measured step times", True),
            ],
            measured={"ttft_p95": Interval(0.41, 0.36, 0.47), "tpot_p95": Interval(1.22, 1.15, 1.29)},
            active=True,
            evidence="admissions between steps rose by 212",
            stage="confirm",
            lossless=True,
            rounds=6,
        ),
        TechniqueOutcome(
            name="prefix_cache",
            title="Prefix cache",
            decision="accepted",
            reason="Answers share a system prompt of 118 tokens; TTFT p95 falls by a further 26 %",
            change={"prefix_cache": "hash"},
            predicted=[Prediction("ttft_p95", 0.55, 0.85, "computed from the shared share of the prompts", True)],
            measured={"ttft_p95": Interval(0.74, 0.68, 0.80)},
            active=True,
            evidence="prefix_hit_tokens rose by 24,190 of 39,870 asked",
            stage="confirm",
            lossless=True,
            rounds=6,
        ),
        TechniqueOutcome(
            name="more_slots",
            title="More slots",
            decision="accepted",
            reason="Requests no longer wait for a slot; the KV pool stays below 40 %",
            change={"slots": 12},
            predicted=[Prediction("ttft_p95", 0.50, 0.95, "simulated with measured step times", False)],
            measured={"ttft_p95": Interval(0.985, 0.97, 0.995)},
            active=True,
            evidence="most running at once: 9 of 12",
            stage="ablation",
            lossless=True,
            rounds=6,
        ),
        TechniqueOutcome(
            name="chunked_prefill",
            title="Chunked prefill",
            decision="rejected",
            reason="TPOT p95 rose by 8 % and TTFT did not improve: prompts of 180 tokens fit in one step",
            change={"chunked_prefill": True, "token_budget": 128},
            predicted=[Prediction("tpot_p95", 0.80, 1.05, "computed from prompt lengths", False)],
            measured={"tpot_p95": Interval(1.08, 1.03, 1.13), "ttft_p95": Interval(1.01, 0.95, 1.08)},
            active=True,
            evidence="prompts cut into chunks: 96",
            stage="screen",
            lossless=True,
            rounds=2,
        ),
        TechniqueOutcome(
            name="weight_only_int8",
            title="Weight-only int8",
            decision="not_applicable",
            reason="The file is already 4-bit: 8-bit weights would be read more slowly",
            change={},
            lossless=False,
        ),
        TechniqueOutcome(
            name="packed_weights",
            title="Native kernels on the file's own 4-bit weights",
            decision="not_tried",
            reason="On in the baseline already",
            change={"weight_kernel": "packed"},
            lossless=True,
            undoes_own_dequantization=True,
        ),
        TechniqueOutcome(
            name="speculative_ngram",
            title="Speculative decoding, n-gram",
            decision="not_applicable",
            reason="The embedded engine does not have it yet",
            change={},
            lossless=True,
        ),
        TechniqueOutcome(
            name="tensor_parallel", title="Tensor parallelism", decision="not_applicable",
            reason="There is one device", change={}, lossless=True,
        ),
    ]  # fmt: skip


def _part(name: str, seconds: float, kind: str) -> dict[str, Any]:
    return {"name": name, "seconds": seconds, "kind": kind}


def _split(ttft: float, queue: float, arithmetic: float, rows: float) -> dict[str, Any]:
    """One arm's time split as `rooftune.diagnose.time_split` writes it."""
    step_parts = [
        _part("reading weights", 0.0051, "computed"),
        _part("reading KV", 0.0004, "computed"),
        _part("arithmetic beyond the bytes", arithmetic, "computed"),
        _part("sampling", 0.0019, "measured"),
        _part("scheduling and Python", 0.0021, "measured"),
        _part("unexplained", 0.0094, "inferred"),
    ]
    step = sum(part["seconds"] for part in step_parts)
    decode = {
        "measured": step, "floor": 0.0055 + arithmetic, "basis": f"mean decode step of {rows} sequences with 198 tokens each",
        "reason": None, "parts": step_parts,
    }  # fmt: skip
    return {
        "parts": step_parts, "measured_step": step, "floor": decode["floor"], "basis": decode["basis"], "reason": None,
        "decode_step": decode,
        "tpot": {
            "measured": step * 1.7, "floor": None, "basis": "mean over answers", "reason": None,
            "parts": [
                _part("decode step", step, "measured"), _part("others' prompts", step * 0.6, "inferred"),
                _part("unexplained", step * 0.1, "inferred"),
            ],
        },
        "ttft": {
            "measured": ttft, "floor": None, "basis": "mean of 432 requests", "reason": None,
            "parts": [
                _part("client sends late", 0.001, "measured"), _part("queue", queue, "measured"),
                _part("prefill", (ttft - queue) * 0.8, "measured"), _part("network, front end, first emit", (ttft - queue) * 0.2 - 0.001, "inferred"),
            ],
        },
    }  # fmt: skip


def _runs() -> list[RunSummary]:
    runs = []
    for number in range(1, 8):
        for position, arm in enumerate(("baseline", "final") if number % 2 else ("final", "baseline")):
            valid = not (number == 3 and arm == "final")
            runs.append(
                RunSummary(
                    id=f"r{number:02}{arm[0]}7c1e",
                    arm=arm,
                    stage="confirm",
                    round=number,
                    valid=valid,
                    metrics={
                        "ttft_p95": 2.2 + number / 50 if arm == "baseline" else 0.57 + number / 90,
                        "tpot_p95": 0.09,
                    },
                    path=f"runs/r{number:02}{arm[0]}7c1e",
                    started_at=f"2026-10-02T09:{10 + number:02}:00+00:00",
                    order=2 * number + position,
                    reason=None
                    if valid
                    else "send_lag_p99 41 ms is above 20 ms: the client was late; measured again",
                    requests=72,
                    gates={gate: gate != "send_lag" or valid for gate in GATES} | {"client_load": None},
                )
            )
    return runs


def improved() -> Result:
    latency = _latency()
    table = _table(latency)
    goals = [
        GoalOutcome("slo_attainment", ">= 95 %", ">=", 0.95, "share", 0.631, 0.9826, True, 0.9715, Interval(1.557, 1.49, 1.63), "improved"),
        GoalOutcome(
            "ttft_p95", "<= 1 s", "<=", 1.0, "s", table["ttft_p95"]["baseline"], table["ttft_p95"]["final"], True,
            table["ttft_p95"]["defaults"], Interval(0.262, 0.231, 0.297), "improved",
        ),
        GoalOutcome("kl_mean", "<= 0.02", "<=", 0.02, "plain", 0.0, 2.1e-6, True),
        GoalOutcome("top1_agreement", ">= 95 %", ">=", 0.95, "share", 1.0, 0.9995, True),
    ]  # fmt: skip
    return Result(
        verdict="improved",
        statement=(
            "Continuous batching with a prefix cache and 12 slots makes TTFT p95 3.8 × lower (3.4 to 4.3) at 1.3 requests/s, "
            "with the same answers."
        ),
        partial=False,
        partial_reason=None,
        created_at="2026-10-02T09:31:00+00:00",
        rooftune_version="0.1.0",
        spec={
            "model": "smollm2-135m",
            "runtime": {"name": "embedded", "options": {}},
            "slo": {"ttft": 1.0, "tpot": 0.15},
            "price": {"amount": 0.1, "currency": "USD", "per": "hour"},
            "budget": {"time": 420.0},
        },
        model={"name": "SmolLM2-135M-Instruct", "format": "GGUF Q4_1", "parameters": 134515008, "weight_bytes": 96_100_000},
        environment={
            "cpu": "AMD EPYC (Zen 3)", "cores": 2, "memory_bytes": 25_280_000_000, "isa": "avx2",
            "system": "Linux 6.1", "python": "3.11.2", "torch": "2.13.0+cpu", "rooftune": "0.1.0",
        },
        roofs={
            "bandwidth": [
                {"bytes": 2**power, "bytes_per_second": rate}
                for power, rate in zip(range(15, 31), [142e9, 140e9, 139e9, 121e9, 96e9, 82e9, 80e9, 71e9, 42e9, 27e9, 22e9, 20e9, 19.4e9, 19.1e9, 19e9, 19e9], strict=True)
            ],
            "flops": {"f32_fma": 102.4e9, "f32_mul_add": 55.1e9, "int8_dot": 190.3e9, "int4_int8_dot": 151.9e9},
            "threads": 2,
        },
        workload={"process": "poisson", "rate": 1.33, "requests": 72, "prompt_tokens_mean": 181.4, "output_tokens": 32, "seed": 1},
        baseline_configuration=dict(BASELINE),
        final_configuration=dict(FINAL),
        defaults_configuration=dict(DEFAULTS),
        goals=goals,
        effects={
            "ttft_p50": Interval(0.281, 0.252, 0.313), "ttft_p95": Interval(0.262, 0.231, 0.297),
            "tpot_p50": Interval(1.238, 1.18, 1.30), "tpot_p95": Interval(1.31, 1.22, 1.41),
            "e2e_p50": Interval(0.88, 0.83, 0.93), "e2e_p95": Interval(0.77, 0.71, 0.83),
            "output_tokens_per_second": Interval(1.027, 0.99, 1.065), "slo_attainment": Interval(1.557, 1.49, 1.63),
        },
        table=table,
        latency=latency,
        time_split={"baseline": _split(1.1, 0.77, 0.0112, 3.9), "final": _split(0.31, 0.02, 0.0199, 6.2)},
        bottleneck={
            "baseline": Bottleneck(
                "queue_slots", "supported", 0.93, 0.61,
                [
                    "71 % of the time to first token was spent waiting for a slot (p95: 1.7 s of 2.2 s).",
                    "All 4 slots were taken in 88 % of the steps while the KV pool was at most 14 % full.",
                    "Experiment: with 8 slots and nothing else changed, waiting fell to 0.2 s, as stated before.",
                ],
            ),
            "final": Bottleneck(
                "prefill_compute", "supported", 0.71, 0.42,
                ["Steps with a prompt run at 84 % of the measured arithmetic roof.", "No request waited for a slot."],
                "A cheaper model (compress) or a second core; nothing in the scheduler is left to gain.",
            ),
        },
        findings={
            "baseline": [
                {"cause": "queue_slots", "status": "supported", "share": 0.61, "confidence": 0.93, "evidence": ["4 of 4 slots taken"]},
                {"cause": "decode_bandwidth", "status": "refuted", "share": 0.1, "confidence": 0.9, "evidence": ["MBU is 22 %"]},
                {"cause": "launch_overhead", "status": "unknown", "share": None, "confidence": None, "evidence": []},
            ],
        },
        techniques=_techniques(),
        quality=QualityOutcome(
            2.1e-6, 4.0e-6, 3.3e-5, 0.9995, 0.9986, 4096, 1.9e-6, True,
            "The answers are the same within rounding: KL is at the floor that another batch size alone gives.",
        ),
        cost=CostOutcome("USD", 0.10, 0.672, 0.655, "at the offered load; 'saturated' is with all slots busy", 0.61, 0.29),
        side_effects=[
            "TPOT p95 is 31 % higher (22 % to 41 %): more answers share each step. The SLO of 150 ms is still met.",
            "Memory in use rose from 310 MB to 322 MB.",
        ],
        plan={
            "rate": 1.33, "requests_for_goals": 59, "requests_per_screen_run": 36, "requests_per_confirm_run": 72, "screen_rounds": 2,
            "confirm_rounds": 6, "confirm_starts": 3, "screen_run_seconds": 30.1, "confirm_run_seconds": 57.4, "start_seconds": 2.1,
            "budget_seconds": 420.0, "minimum_detectable_effect": 0.147, "assumed_spread": 0.10, "affordable": True, "shortfall": None,
        },
        runs=_runs(),
        noise={
            "round_to_round": {"ttft_p95": 0.042, "tpot_p95": 0.017},
            "aa": {"ttft_p95": {"value": 1.01, "low": 0.95, "high": 1.07}},
        },
        missing={"table.ttft_p99": "p99 needs 299 requests"},
        next_step="Try `rooftune optimize` with budget 20min to search slots and token_budget around this configuration.",
        report="out/report.html",
        seconds=402.3,
        changes=[
            "batching: dynamic -> continuous", "slots: 4 -> 12", "prefix_cache: none -> hash",
            "rollback: rooftune serve smollm2-135m --batching dynamic --slots 4 --prefix-cache none",
        ],
    )  # fmt: skip


def no_effect() -> Result:
    result = improved()
    techniques = [
        replace(t, decision="rejected", reason="No effect beyond the noise", measured={"ttft_p95": Interval(1.0, 0.97, 1.03)})
        if t.decision == "accepted" else t
        for t in result.techniques
    ]  # fmt: skip
    flat = Interval(0.998, 0.965, 1.032)
    return replace(
        result,
        verdict="no effect",
        statement="None of 4 techniques changed TTFT p95 by more than 3 %: the machine is at its arithmetic roof.",
        final_configuration=dict(BASELINE),
        goals=[replace(g, final=g.baseline, met=g.metric in ("kl_mean", "top1_agreement"), effect=flat, verdict="no effect") for g in result.goals],
        effects=dict.fromkeys(result.effects, flat),
        table={m: {**v, "final": v["baseline"]} for m, v in result.table.items()},
        latency={**result.latency, "final": {k: latencies(v[200], 0.3, 11) for k, v in result.latency["baseline"].items()}},
        cost=CostOutcome("USD", 0.10, 0.672, 0.671, "at the offered load", 0.61, 0.612),
        techniques=techniques,
        side_effects=[],
        changes=[],
        next_step="A cheaper model: `rooftune techniques show weight_only_int4`.",
    )  # fmt: skip


def inconclusive() -> Result:
    result = improved()
    wide = Interval(0.93, 0.79, 1.09)
    return replace(
        result,
        verdict="inconclusive",
        statement="TTFT p95 may be 7 % lower, but 6 rounds do not exclude no effect; about 14 more rounds would decide.",
        goals=[replace(g, effect=wide, verdict="inconclusive", met=None, reason="the interval holds the bound") for g in result.goals],
        effects=dict.fromkeys(result.effects, wide),
        plan={**result.plan, "rounds_still_needed": 14, "affordable": False},
    )  # fmt: skip


def partial() -> Result:
    """Stopped by the user after the first trial: little was measured, and every gap says why."""
    result = improved()
    why = "stopped before this was measured"
    return replace(
        result,
        verdict="inconclusive",
        statement="Stopped after 1 of 4 trials: continuous batching looks promising in 2 rounds, which do not confirm it.",
        partial=True,
        partial_reason="interrupted after 141 s; `--resume` goes on from here",
        roofs=None,
        goals=[replace(g, final=None, met=None, defaults=None, effect=None, verdict=None, reason=why) for g in result.goals],
        effects={},
        table={m: {"baseline": v["baseline"], "final": None, "defaults": None} for m, v in result.table.items()},
        latency={"baseline": result.latency["baseline"]},
        time_split={},
        bottleneck={"baseline": result.bottleneck["baseline"], "final": None},
        findings={},
        techniques=[replace(result.techniques[0], decision="inconclusive", stage="screen", rounds=2, reason=why)]
        + [replace(t, decision="not_tried", measured={}, active=None, evidence=None, stage="none", reason=why) for t in result.techniques[1:]],
        quality=QualityOutcome(None, None, None, None, None, 0, None, None, "Quality was not measured.", why),
        cost=CostOutcome("USD", 0.10, 0.672, None, "the offered load", reason=why),
        side_effects=[],
        runs=result.runs[:2],
        noise={},
        missing={"roofs": why, "bottleneck.final": why},
        changes=[],
    )  # fmt: skip


def regressed() -> Result:
    result = improved()
    worse = Interval(1.21, 1.14, 1.29)
    quality = QualityOutcome(
        0.081,
        0.094,
        1.3,
        0.874,
        0.86,
        4096,
        1.9e-6,
        False,
        "Answers got worse: KL is 0.081, above the margin of 0.02.",
    )
    return replace(
        result,
        verdict="regressed",
        statement="The configuration in the spec is worse: TTFT p95 is 21 % higher (14 % to 29 %) and answers changed.",
        goals=[
            replace(g, final=final, effect=effect, verdict="regressed", met=False)
            for g, final, effect in zip(
                result.goals,
                (0.52, 2.9, 0.081, 0.874),
                (Interval(0.82, 0.74, 0.91), worse, None, None),
                strict=True,
            )
        ],
        effects={**dict.fromkeys(result.effects, worse), "slo_attainment": Interval(0.82, 0.74, 0.91)},
        table={
            m: {**v, "final": v["baseline"] and 1.21 * v["baseline"]}
            for m, v in result.table.items()
            if m != "slo_attainment"
        },
        quality=quality,
    )


def invalid() -> Result:
    result = improved()
    return replace(
        result,
        verdict="invalid",
        statement="config_noop: the server still runs with 4 slots; the change did not reach it.",
        effects={},
        goals=[replace(g, final=None, met=None, effect=None, verdict="invalid", reason="the change was not on") for g in result.goals],
        runs=[replace(r, valid=False, reason="config_noop") for r in result.runs],
    )  # fmt: skip


HOSTILE = '<script>alert(\'x\')</script>" onload="y" {{7*7}} ]]> --> \u202egnp.exe\u202c [bold red]\x1b[31m'
LONG = "a-very-long-model-name-without-any-place-to-break-" * 6
RTL = "نموذج كبير جدا 42"


def hostile() -> Result:
    """Everything that a user or a model could name is an attack or far too long."""
    result = improved()
    technique = replace(
        result.techniques[0], name=HOSTILE, title=f"{HOSTILE}{LONG}", reason=f"{RTL} {HOSTILE}\n# heading | cell\nmodel: evil",
        change={LONG: HOSTILE}, evidence=HOSTILE,
    )  # fmt: skip
    return replace(
        result,
        statement=f"{HOSTILE}\nmodel: evil\n{RTL} {LONG}",
        model={"name": f"{LONG}{HOSTILE}", RTL: [HOSTILE, {LONG: HOSTILE}]},
        environment={HOSTILE: LONG, "cpu": RTL, "nested": {"a": {"b": HOSTILE}}},
        spec={**result.spec, "model": f"{LONG}{HOSTILE}"},
        techniques=[technique, *result.techniques[1:]],
        final_configuration={**result.final_configuration, LONG: HOSTILE},
        side_effects=[HOSTILE, LONG, RTL],
        goals=[
            *result.goals,
            GoalOutcome(LONG, HOSTILE, "<=", 1.0, HOSTILE, 1.0, 2.0, False, reason=HOSTILE),
        ],
        table={**result.table, HOSTILE: {"baseline": 1.0, "final": math.nan, LONG: 3.0}},
        runs=[replace(result.runs[0], id=LONG, path=f"/{LONG}", reason=HOSTILE)],
        next_step=HOSTILE,
        changes=[HOSTILE, LONG],
        bottleneck={
            "baseline": Bottleneck(HOSTILE, "unknown", None, None, [HOSTILE, LONG], HOSTILE),
            "final": None,
        },
        time_split={"final": {"parts": [{"name": f"{HOSTILE}{LONG}", "seconds": 0.01, "kind": HOSTILE}]}},
    )


def many_techniques() -> Result:
    result = improved()
    tried: list[TechniqueOutcome] = []
    for index in range(40):
        decision: Any = ("accepted", "rejected", "inconclusive", "failed", "not_applicable", "not_tried")[
            index % 6
        ]
        effect = Interval(
            math.exp((index % 9 - 4) / 4), math.exp((index % 9 - 4.6) / 4), math.exp((index % 9 - 3.2) / 4)
        )
        tried.append(
            TechniqueOutcome(
                name=f"technique_{index}", title=f"Technique number {index}", decision=decision,
                reason="A reason of the usual length, which says what was measured and why that decides it",
                change={"slots": index}, predicted=[Prediction("ttft_p95", effect.low, effect.high * 1.1, "computed")],
                measured={"ttft_p95": effect} if index % 6 < 3 else {}, active=None, stage="screen", rounds=2,
            )
        )  # fmt: skip
    return replace(result, techniques=tried)


ALL = {
    "improved": improved,
    "no_effect": no_effect,
    "inconclusive": inconclusive,
    "partial": partial,
    "regressed": regressed,
    "invalid": invalid,
    "hostile": hostile,
    "many_techniques": many_techniques,
}
