"""How pieces of evidence add up to a finding. One rule for all causes.

A piece speaks for the cause, against it, or neither, and belongs to a *source* (gauges, timings, step model, roofs, one experiment).
*Supported* needs two pieces from different sources that agree, and none against. One piece against it refutes a cause that no
experiment speaks for; contradicting pieces leave it unknown. No piece at all is unknown, with what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rooftune.diagnose.finding import Evidence, Finding

Side = Literal["for", "against", "neither"]

SMALL_SHARE = 0.10
"""A cause of less than a tenth of the lost time is not what makes the service slow."""


@dataclass(frozen=True, slots=True)
class Piece:
    source: str
    side: Side
    text: str


def weigh(
    cause: str,
    pieces: Sequence[Piece],
    share: float | None,
    *,
    missing: Sequence[str] = (),
    answers: Sequence[str] = (),
) -> Finding:
    """Combine. ``share``: part of the lost time that the cause explains if it is true."""
    sources_for = {p.source for p in pieces if p.side == "for"}
    sources_against = {p.source for p in pieces if p.side == "against"}
    texts = tuple(f"{_MARK[p.side]} {p.text} [{p.source}]" for p in pieces)
    agree, oppose = len(sources_for), len(sources_against)
    experiment_for = any(s.startswith("experiment") for s in sources_for)
    if share is not None and share < SMALL_SHARE:
        text = f"- it could explain only {share:.0%} of the lost time"
        return Finding(
            cause, "refuted", share, _confidence(2, 0), (text, *texts), tuple(missing), tuple(answers)
        )
    if agree >= 2 and oppose == 0 and share is not None:
        return Finding(
            cause, "supported", share, _confidence(agree, 0), texts, tuple(missing), tuple(answers)
        )
    if oppose and not experiment_for and oppose >= agree:
        return Finding(
            cause, "refuted", share, _confidence(oppose, agree), texts, tuple(missing), tuple(answers)
        )
    confidence = _confidence(agree, oppose) if agree > oppose else None
    return Finding(cause, "unknown", share, confidence, texts, tuple(missing), tuple(answers))


def experiment_piece(evidence: Evidence, name: str, cause: str) -> Piece | None:
    """What an experiment that was run says of the cause, if it separates it."""
    outcome = evidence.experiments.get(name)
    if outcome is None:
        return None
    side = outcome.get("reading", {}).get(cause)
    if side not in ("for", "against"):
        return None
    return Piece(f"experiment {name}", side, str(outcome.get("statement", "")))


def threshold(
    source: str, value: float | None, *, low: float, high: float, text: str, inverse: bool = False
) -> Piece | None:
    """For above ``high``, against below ``low``, neither between (the reverse with ``inverse``); None without a value."""
    if value is None:
        return None
    side: Side = "for" if value >= high else "against" if value <= low else "neither"
    if inverse:
        side = "against" if value >= high else "for" if value <= low else "neither"
    return Piece(source, side, text)


def present(*pieces: Piece | None) -> list[Piece]:
    return [p for p in pieces if p is not None]


def _confidence(agree: int, oppose: int) -> float:
    """A stated rule, not a measured probability: each independent piece that agrees halves and more what is left of doubt."""
    return max(0.05, round(1.0 - 0.45**agree - 0.25 * oppose, 2))


_MARK = {"for": "+", "against": "-", "neither": "o"}
