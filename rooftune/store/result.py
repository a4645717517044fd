"""The outcome of `rooftune optimize`: what `result.json` holds and every report is made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["improved", "no effect", "regressed", "inconclusive", "invalid"]
Decision = Literal["accepted", "rejected", "not_applicable", "inconclusive", "failed", "not_tried"]


@dataclass(slots=True)
class Interval:
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(slots=True)
class GoalOutcome:
    """One goal before and after. Values None carry ``reason``. ``effect`` is final / baseline (ratio, with interval)."""

    metric: str
    target: str
    sign: str
    target_value: float
    unit: str
    baseline: float | None
    final: float | None
    met: bool | None
    defaults: float | None = None
    """The same metric under Rooftune's defaults, where measured."""
    effect: Interval | None = None
    verdict: Verdict | None = None
    reason: str | None = None


@dataclass(slots=True)
class Bottleneck:
    cause: str
    status: Literal["supported", "refuted", "unknown"]
    confidence: float | None
    share: float | None
    evidence: list[str]
    next_step: str | None = None


@dataclass(slots=True)
class Prediction:
    """Predicted before the trial, as a ratio after / before of one metric; ``basis`` says from what."""

    metric: str
    low: float
    high: float
    basis: str
    hit: bool | None = None
    """Whether the measured effect's interval overlaps; set after the trial."""


@dataclass(slots=True)
class TechniqueOutcome:
    name: str
    title: str
    decision: Decision
    reason: str
    change: dict[str, Any]
    """The switches it sets."""
    predicted: list[Prediction] = field(default_factory=list)
    measured: dict[str, Interval] = field(default_factory=dict)
    """Ratio after / before by metric, of the technique alone in screening: what was predicted. Its worth within the final
    stack, which decides, is in ``reason``."""
    active: bool | None = None
    evidence: str | None = None
    """The counter that showed it on."""
    stage: Literal["none", "screen", "confirm", "ablation"] = "none"
    lossless: bool | None = None
    undoes_own_dequantization: bool = False
    rounds: int = 0


@dataclass(slots=True)
class QualityOutcome:
    """Final configuration against the baseline on the same tokens."""

    kl_mean: float | None
    kl_high: float | None
    kl_p99: float | None
    top1_agreement: float | None
    top1_low: float | None
    tokens: int
    floor_kl: float | None
    """The baseline against itself: what noise alone gives."""
    passed: bool | None
    statement: str
    """The decision in a few words; ``detail`` has the numbers and how they were got."""
    reason: str | None = None
    detail: str = ""


@dataclass(slots=True)
class CostOutcome:
    currency: str
    price_per_hour: float
    baseline_per_million_output_tokens: float | None
    final_per_million_output_tokens: float | None
    basis: str
    """At which load: the offered load, or the rate reached with all slots busy."""
    baseline_saturated: float | None = None
    final_saturated: float | None = None
    reason: str | None = None


@dataclass(slots=True)
class RunSummary:
    id: str
    arm: str
    stage: str
    round: int | None
    valid: bool
    metrics: dict[str, float | None]
    path: str
    started_at: str
    order: int
    reason: str | None = None
    requests: int | None = None
    """Requests offered in the run."""
    gates: dict[str, bool | None] = field(default_factory=dict)
    """Validity gate -> passed; None where it could not be judged."""


@dataclass(slots=True)
class Result:
    verdict: Verdict
    statement: str
    """One sentence: what changed, by how much, how sure."""
    partial: bool
    partial_reason: str | None
    created_at: str
    rooftune_version: str
    spec: dict[str, Any]
    model: dict[str, Any]
    environment: dict[str, Any]
    roofs: dict[str, Any] | None
    workload: dict[str, Any]
    baseline_configuration: dict[str, Any]
    final_configuration: dict[str, Any]
    defaults_configuration: dict[str, Any]
    goals: list[GoalOutcome]
    effects: dict[str, Interval]
    """Final over baseline by metric (ratio), from the confirming rounds."""
    table: dict[str, dict[str, float | None]]
    """Metric -> {baseline, final, defaults}, pooled over the confirming rounds."""
    latency: dict[str, dict[str, list[float]]]
    """Arm (baseline, final, defaults) -> {ttft, tpot, e2e} -> sorted per-request values in seconds (at most 400)."""
    time_split: dict[str, dict[str, Any]]
    """Arm -> where a step's time goes against the roof: {parts: [{name, seconds, kind}], measured_step, ...}."""
    bottleneck: dict[str, Bottleneck | None]
    """baseline, final."""
    findings: dict[str, list[dict[str, Any]]]
    techniques: list[TechniqueOutcome]
    quality: QualityOutcome | None
    cost: CostOutcome | None
    side_effects: list[str]
    plan: dict[str, Any]
    """What was computed first: requests and rounds needed, minimum detectable effect, affordable."""
    runs: list[RunSummary]
    noise: dict[str, Any]
    """Round-to-round spread of the machine and the A/A reading, where measured."""
    next_step: str
    report: str
    seconds: float
    changes: list[str] = field(default_factory=list)
    """The flag difference, one line a switch, and the rollback."""
    missing: dict[str, str] = field(default_factory=dict)
    """Why a value is None where its own part has no ``reason``: dotted path (``quality``, ``roofs``) -> reason."""
