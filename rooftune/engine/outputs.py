"""What the engine says of a request: one output per step in which something happened to it."""

from __future__ import annotations

from rooftune.engine.contracts import FinishReason, RequestOutput, TokenLogprob
from rooftune.engine.sequence import SequenceState


def token_output(
    sequence: SequenceState, token: int, logprob: TokenLogprob | None, finish: FinishReason | None, now: float
) -> RequestOutput:
    return RequestOutput(
        id=sequence.id,
        tokens=(token,),
        finish=finish,
        cached_tokens=sequence.cached_tokens,
        logprobs=() if logprob is None else (logprob,),
        timings={} if finish is None else sequence.timings(now),
    )


def last_output(sequence: SequenceState, now: float, error: str | None) -> RequestOutput:
    """The output of a request that ended without a token."""
    return RequestOutput(
        id=sequence.id,
        tokens=(),
        finish=sequence.finish,
        cached_tokens=sequence.cached_tokens,
        error=error,
        timings=sequence.timings(now),
    )
