"""From a choice's tokens to the text and logprobs that its client sees."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rooftune.engine.contracts import TokenLogprob
from rooftune.engine.server.stops import StopMatcher


class Decoder(Protocol):
    """Tokens one by one to text that never changes once given out; never half a UTF-8 character."""

    def add(self, tokens: Sequence[int]) -> str: ...

    def flush(self) -> str: ...


@dataclass(frozen=True, slots=True)
class TextLogprob:
    """A token's logprob and where its text begins, in characters from the start of the choice's text."""

    offset: int
    logprob: TokenLogprob


@dataclass(slots=True)
class Piece:
    """What may be given out now. ``stopped``: a stop string was found after it."""

    text: str = ""
    logprobs: list[TextLogprob] = field(default_factory=list)
    stopped: bool = False

    def append(self, later: Piece) -> None:
        """Take up what comes right after this piece."""
        self.text += later.text
        self.logprobs += later.logprobs
        self.stopped = later.stopped


@dataclass(slots=True)
class _Held:
    """A logprob that waits until all text of its token, [start, end) in characters, is given out."""

    start: int
    end: int
    logprob: TokenLogprob


class TextStream:
    """Text of one choice. Tokens after a stop string are neither shown nor counted."""

    def __init__(self, decoder: Decoder, stops: Sequence[str] = (), hidden: Collection[int] = ()) -> None:
        """``hidden``: tokens that end the text and are not part of it (end of sequence, stop token ids)."""
        self._decoder = decoder
        self._stops = StopMatcher(stops)
        self._hidden = hidden
        self._decoded = 0
        self._released = 0
        self._held: list[_Held] = []
        self.tokens = 0
        """Tokens generated up to the end of the text, the hidden one included."""

    def push(
        self, tokens: Sequence[int], logprobs: Sequence[TokenLogprob] = (), ended: bool = False
    ) -> Piece:
        """Take the tokens of a step; ``ended``: the engine stopped at the last of them."""
        piece = Piece()
        for index, token in enumerate(tokens):
            self.tokens += 1
            if ended and index == len(tokens) - 1 and token in self._hidden:
                break
            start = self._decoded
            text = self._decoder.add((token,))
            self._decoded += len(text)
            if index < len(logprobs):
                self._held.append(_Held(start, self._decoded, logprobs[index]))
            if self._release(text, piece):
                break
        return piece

    def finish(self) -> Piece:
        """All that was held back, when the text ends without a stop string."""
        piece = Piece()
        text = self._decoder.flush()
        self._decoded += len(text)
        if not self._release(text, piece):
            rest = self._stops.flush()
            self._released += len(rest)
            piece.text += rest
            piece.logprobs += [TextLogprob(held.start, held.logprob) for held in self._held]
            self._held.clear()
        return piece

    def _release(self, text: str, piece: Piece) -> bool:
        shown, piece.stopped = self._stops.push(text)
        self._released += len(shown)
        piece.text += shown
        if piece.stopped:
            # A token that is cut by the stop string is reported; those behind it are not.
            piece.logprobs += [
                TextLogprob(held.start, held.logprob)
                for held in self._held
                if held.start < self._released or held.end <= self._released
            ]
            self._held.clear()
            return True
        while self._held and self._held[0].end <= self._released:
            held = self._held.pop(0)
            piece.logprobs.append(TextLogprob(held.start, held.logprob))
        return False
