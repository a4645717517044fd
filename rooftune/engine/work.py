"""What one step computes: the rows of a step, and the sizes on which its time depends."""

from __future__ import annotations

from dataclasses import dataclass

from rooftune.engine.contracts import SequenceSlice
from rooftune.engine.sequence import SequenceState


@dataclass(frozen=True, slots=True)
class StepWork:
    """Sizes of a step.

    prefill_tokens: prompt tokens computed; prefill_context: query-key pairs that their attention reads, summed
    over these tokens; decode_rows: sequences that compute the one token sampled last; decode_context: positions
    that their attention reads, summed; finished_prompts: prompts whose last token is in this step (each needs
    one row of logits, as does each decode row).
    """

    prefill_tokens: int = 0
    prefill_context: int = 0
    decode_rows: int = 0
    decode_context: int = 0
    finished_prompts: int = 0

    @property
    def tokens(self) -> int:
        return self.prefill_tokens + self.decode_rows

    @property
    def context_sum(self) -> int:
        """Positions that all rows of the step can see, prompts counted by query-key pairs."""
        return self.prefill_context + self.decode_context


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence's part of a step: ``count`` tokens after the first ``context``; ``samples``: a token follows."""

    sequence: SequenceState
    context: int
    count: int
    samples: bool
    decode: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A planned step: its pages are reserved and its tokens counted as computed until it commits or fails."""

    rows: tuple[Row, ...]
    work: StepWork
    waiting: int
    running: int
    idle_rows: int

    def slices(self) -> list[SequenceSlice]:
        """The step as a model runner wants it, in the order of the rows."""
        return [
            SequenceSlice(
                tokens=row.sequence.tokens[row.context : row.context + row.count],
                context=row.context,
                pages=tuple(row.sequence.pages),
                logits=int(row.samples),
            )
            for row in self.rows
        ]


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing can run now. wake: clock time at which a waiting batch is due, or None: nothing is waiting."""

    wake: float | None = None


def work_of(rows: tuple[Row, ...]) -> StepWork:
    """The sizes of these rows. A new token at position p reads p + 1 positions, itself included."""
    prefill_tokens = prefill_context = decode_rows = decode_context = finished_prompts = 0
    for row in rows:
        if row.decode:
            decode_rows += 1
            decode_context += row.context + 1
        else:
            prefill_tokens += row.count
            prefill_context += row.count * row.context + row.count * (row.count + 1) // 2
            finished_prompts += row.samples
    return StepWork(prefill_tokens, prefill_context, decode_rows, decode_context, finished_prompts)
