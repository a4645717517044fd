"""From evidence to a diagnosis: every judge speaks, the strongest supported cause leads, or it stays unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rooftune.diagnose.catalogue import CAUSES, not_judged
from rooftune.diagnose.causes import JUDGES
from rooftune.diagnose.facts import Facts, gather
from rooftune.diagnose.finding import Evidence, Finding
from rooftune.spec.goal import Goal
from rooftune.store.run import Run


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """``primary``: a cause id (`unknown` where evidence does not decide), None where nothing could be read at all."""

    primary: str | None
    findings: tuple[Finding, ...]
    missing: tuple[str, ...]
    best_reading: str
    next_step: str
    facts: Facts | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "primary": self.primary,
            "findings": [
                {
                    "cause": f.cause,
                    "status": f.status,
                    "share": f.share,
                    "confidence": f.confidence,
                    "evidence": list(f.evidence),
                    "missing": list(f.missing),
                    "answers": list(f.answers),
                }
                for f in self.findings
            ],
            "missing": list(self.missing),
            "best_reading": self.best_reading,
            "next_step": self.next_step,
            "not_judged": list(not_judged(frozenset(JUDGES))),
        }

    def finding(self, cause: str) -> Finding | None:
        return next((f for f in self.findings if f.cause == cause), None)


def diagnose(
    run: Run, experiments: Mapping[str, Mapping[str, Any]] | None = None, goals: Sequence[Goal] = ()
) -> Diagnosis:
    """Judge every cause that has a judge. ``experiments``: outcomes by name (see `rooftune.diagnose.experiments`)."""
    evidence = Evidence(run, {name: dict(outcome) for name, outcome in (experiments or {}).items()})
    if not any(r.succeeded for r in run.records):
        reason = "no request of this run was answered"
        return Diagnosis(
            None, (), (reason,), f"Nothing can be read: {reason}.", "mend the errors, then measure again"
        )
    facts = gather(run, goals)
    findings = [judge(evidence, facts) for judge in JUDGES.values()]
    primary = _primary(findings)
    if primary is None:
        findings.append(_unknown(findings, facts))
    ordered = sorted(findings, key=_rank)
    return Diagnosis(
        primary="unknown" if primary is None else primary.cause,
        findings=tuple(ordered),
        missing=_missing(primary, ordered),
        best_reading=_reading(primary, ordered, facts),
        next_step=_next_step(primary, ordered, evidence),
        facts=facts,
    )


def _primary(findings: Sequence[Finding]) -> Finding | None:
    supported = [f for f in findings if f.status == "supported"]
    healthy = next((f for f in supported if f.cause == "healthy"), None)
    if healthy is not None:
        return healthy
    return max(supported, key=lambda f: (f.share or 0.0, f.confidence or 0.0)) if supported else None


def _unknown(findings: Sequence[Finding], facts: Facts) -> Finding:
    lean = _leaning(findings)
    text = "no cause has two independent pieces of evidence that agree"
    if lean is not None:
        text += f"; nearest: {lean.cause}"
    return Finding("unknown", "supported", None, None, (text,), lean.missing if lean is not None else ())


def _leaning(findings: Sequence[Finding]) -> Finding | None:
    """The undecided cause with the most behind it."""
    open_ones = [f for f in findings if f.status == "unknown" and f.cause not in ("healthy", "unknown")]
    return max(
        open_ones,
        key=lambda f: (f.confidence or 0.0) * (f.share if f.share is not None else 0.3),
        default=None,
    )


def _rank(finding: Finding) -> tuple[int, float]:
    order = {"supported": 0, "unknown": 1, "refuted": 2}[finding.status]
    return order, -(finding.share or 0.0)


def _missing(primary: Finding | None, findings: Sequence[Finding]) -> tuple[str, ...]:
    """What would decide or strengthen: of the primary and of the undecided, without repeats."""
    wanted = [primary] if primary is not None else [f for f in findings if f.status == "unknown"]
    seen: dict[str, None] = {}
    for finding in wanted:
        if finding is not None:
            seen.update(dict.fromkeys(finding.missing))
    return tuple(seen)


def _reading(primary: Finding | None, findings: Sequence[Finding], facts: Facts) -> str:
    split = ""
    if facts.lost is not None:
        parts = {
            "queue": facts.lost.queue,
            "prefill": facts.lost.prefill,
            "decode": facts.lost.decode,
            "rest": facts.lost.rest,
        }
        told = ", ".join(f"{n} {s:.0%}" for n, s in sorted(parts.items(), key=lambda i: -i[1]) if s >= 0.05)
        split = f" Of {facts.lost.basis}: {told}."
    if primary is not None and primary.cause == "healthy":
        return f"Nothing to blame: {_first(primary)}.{split}"
    if primary is not None:
        share = "" if primary.share is None else f" It explains {primary.share:.0%} of the lost time."
        return f"{_capital(CAUSES[primary.cause].meaning)}: {_first(primary)}.{share}{split}"
    lean = _leaning(findings)
    if lean is None:
        return f"The evidence does not decide.{split}"
    return f"The evidence does not decide; nearest is {lean.cause} ({CAUSES[lean.cause].meaning}).{split}"


def _next_step(primary: Finding | None, findings: Sequence[Finding], evidence: Evidence) -> str:
    if primary is not None and primary.cause == "healthy":
        return "nothing to do; raise the load to find the capacity"
    if primary is not None and primary.answers:
        return f"try what answers it: {', '.join(primary.answers)}"
    lean = _leaning(findings)
    if lean is not None and lean.missing:
        return f"get {lean.missing[0]}"
    if not evidence.experiments:
        return "let Rooftune run its experiments on a server that it may load (rooftune diagnose SPEC)"
    return "measure a longer run at the load that hurts"


def _first(finding: Finding) -> str:
    good = [e for e in finding.evidence if e.startswith("+ ")]
    text = good[0] if good else finding.evidence[0] if finding.evidence else "no evidence"
    return text.removeprefix("+ ").rsplit(" [", 1)[0]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
