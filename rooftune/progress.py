"""How long work tells what it is doing, without knowing where it is shown."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A listener for long work. Implementations: terminal (live bar), plain lines, silent."""

    def say(self, line: str) -> None:
        """Tell one finished fact in words."""
        ...

    def begin(self, what: str, seconds: float | None = None) -> None:
        """A stage starts; ``seconds`` is the expected duration where it is known."""
        ...

    def advance(self, share: float) -> None:
        """Share of the current stage that is done, 0 to 1."""
        ...

    def end(self) -> None:
        """The current stage is over."""
        ...


class Silent:
    """Progress that shows nothing (scripts, tests)."""

    def say(self, line: str) -> None:
        pass

    def begin(self, what: str, seconds: float | None = None) -> None:
        pass

    def advance(self, share: float) -> None:
        pass

    def end(self) -> None:
        pass
