"""healthy: every stated bound is met; or, with none stated, nothing waits and there is room for more."""

from __future__ import annotations

from rooftune.diagnose.causes.weigh import Piece, present, threshold, weigh
from rooftune.diagnose.facts import Facts, gather
from rooftune.diagnose.finding import Evidence, Finding

CAUSE = "healthy"


def judge(evidence: Evidence, facts: Facts | None = None) -> Finding:
    facts = facts or gather(evidence.run)
    queue = facts.queue if facts.queue is not None else facts.queue_by_little
    waits = None if queue is None or not facts.ttft else queue / facts.ttft
    bounds = None
    if facts.missed:
        bounds = Piece("bounds", "against", f"missed: {facts.missed[0]}")
    elif facts.bounds:
        bounds = Piece("bounds", "for", f"every stated bound is met ({'; '.join(facts.bounds)})")
    failed = facts.failed / facts.requests if facts.requests else None
    growing = None
    if facts.growth is not None and facts.busy_share is not None:
        saturated = facts.busy_share >= 0.9 and facts.growth >= 1.5 and (waits or 0.0) >= 0.2
        growing = Piece(
            "growth",
            "against" if saturated else "for",
            f"the server computes {facts.busy_share:.0%} of the time; later requests wait {facts.growth:.1f} times as long "
            "as early ones",
        )
    pieces = present(
        bounds,
        growing,
        threshold("queue", waits, low=0.1, high=0.35, text=f"the queue is {waits:.0%} of the time to first token", inverse=True)
        if waits is not None and not facts.bounds
        else None,
        threshold("spare capacity", facts.busy_share, low=0.75, high=0.9,
                  text=f"the server computes {facts.busy_share:.0%} of the time", inverse=True)
        if facts.busy_share is not None and not facts.bounds
        else None,
        Piece("errors", "against", f"{failed:.0%} of requests failed") if failed is not None and failed > 0.01 else None,
    )  # fmt: skip
    missing = [] if facts.bounds else ["bounds (slo or goals): without them slow has no meaning but waiting"]
    finding = weigh(CAUSE, pieces, 1.0, missing=missing)
    share = 0.0 if finding.status == "supported" else None
    return Finding(CAUSE, finding.status, share, finding.confidence, finding.evidence, finding.missing)
