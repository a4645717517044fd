"""Stop strings over text that comes in pieces."""

from __future__ import annotations

from collections.abc import Sequence


class StopMatcher:
    """Holds back every end of the text that could begin a stop string.

    The match that is complete first wins; of those that end at the same character, the longest. Thus the result
    does not depend on how the text was cut into pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._longest = max((len(stop) for stop in stops), default=0)
        self._held = ""

    def push(self, text: str) -> tuple[str, bool]:
        """Text that may be given out, and whether a stop string was found right after it."""
        if not self._stops:
            return text, False
        pending = self._held + text
        matches = [(at + len(stop), at) for stop in self._stops if (at := pending.find(stop)) >= 0]
        if matches:
            self._held = ""
            return pending[: min(matches)[1]], True
        keep = self._could_begin(pending)
        self._held = pending[len(pending) - keep :]
        return pending[: len(pending) - keep], False

    def flush(self) -> str:
        """What is still held back, at the end of a text that no stop string ended."""
        text, self._held = self._held, ""
        return text

    def _could_begin(self, text: str) -> int:
        """Length of the longest end of ``text`` that is a proper beginning of a stop string."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[-length:]
            if any(len(stop) > length and stop.startswith(end) for stop in self._stops):
                return length
        return 0
