"""The state of one request in the scheduler: tokens known, computed, committed, and pages allocated."""

from __future__ import annotations

from dataclasses import dataclass, field

from rooftune.engine.contracts import FinishReason, GenerationRequest
from rooftune.engine.prefix import Link


@dataclass(slots=True, eq=False)
class SequenceState:
    """A request and how far it has come; times are seconds of the scheduler's clock.

    Invariant: committed <= computed <= len(tokens), and while it runs len(tokens) <= len(pages) * page_size.
    Between steps computed = committed; a running step has raised computed by its share of new tokens.
    """

    request: GenerationRequest
    arrival: float
    link: Link
    """Of the last full committed page: where the prefix cache goes on from."""
    tokens: list[int] = field(default_factory=list)
    """The prompt and what was sampled so far."""
    computed: int = 0
    """Tokens whose keys and values are in the pages or are being computed by the step that runs."""
    committed: int = 0
    """Tokens whose keys and values are in the pages."""
    pages: list[int] = field(default_factory=list)
    cached_tokens: int = 0
    """Tokens of the prompt that the prefix cache gave."""
    prompt_steps: int = 0
    """Steps that have computed a part of the prompt since the last admission."""
    preemptions: int = 0
    to_recompute: int = 0
    """Committed tokens that the last preemption threw away."""
    admitted: float | None = None
    first_token: float | None = None
    finish: FinishReason | None = None

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def output_length(self) -> int:
        return len(self.tokens) - len(self.request.prompt)

    @property
    def remaining(self) -> int:
        """Tokens that are known but not yet computed."""
        return len(self.tokens) - self.computed

    @property
    def decoding(self) -> bool:
        """All but the last sampled token are computed."""
        return self.remaining == 1 and self.output_length > 0

    @property
    def resumed(self) -> bool:
        """It has run before and was preempted."""
        return self.preemptions > 0

    def timings(self, now: float) -> dict[str, float]:
        """Seconds in the queue, until the first token, and after it; a stage that was not reached is absent.

        A stage that was cut short by the end of the request counts up to ``now``.
        """
        if self.admitted is None:
            return {"queue": now - self.arrival}
        timings = {"queue": self.admitted - self.arrival}
        if self.first_token is None:
            timings["prefill"] = now - self.admitted
            return timings
        timings["prefill"] = self.first_token - self.admitted
        timings["decode"] = now - self.first_token
        return timings
