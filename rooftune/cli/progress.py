"""Progress of long work: a live bar with time left on a terminal, plain lines elsewhere. Always on standard error."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from rooftune.progress import Progress

_PLAIN_INTERVAL = 10.0
"""Seconds between two plain lines of one stage, so that a log stays short."""


def console_progress(stream: TextIO | None = None) -> Progress:
    """The progress listener that fits the stream (standard error by default)."""
    target = sys.stderr if stream is None else stream
    return LiveProgress(target) if target.isatty() else PlainProgress(target)


def duration(seconds: float) -> str:
    """A short form for people: 8 s, 2 min 05 s, 1 h 12 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


class _Stage:
    """One stage's clock: what is left, from the share done or from the expected duration."""

    def __init__(self, what: str, seconds: float | None) -> None:
        self.what = what
        self.expected = seconds
        self.share = 0.0
        self.started = time.monotonic()

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def left(self) -> float | None:
        """Seconds left: while little is done the expectation is the better guide."""
        elapsed = self.elapsed()
        if self.share > 0.05:
            return elapsed * (1.0 - self.share) / self.share
        return None if self.expected is None else max(0.0, self.expected - elapsed)


class PlainProgress:
    """Plain lines: one at the start of a stage, one each ten seconds, one per finished fact."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._stages: list[_Stage] = []
        self._last = 0.0

    def say(self, line: str) -> None:
        self._write(line)

    def begin(self, what: str, seconds: float | None = None) -> None:
        self._stages.append(_Stage(what, seconds))
        self._last = time.monotonic()
        self._write(f"{what} …" if seconds is None else f"{what} … (about {duration(seconds)})")

    def advance(self, share: float) -> None:
        if not self._stages:
            return
        stage = self._stages[-1]
        stage.share = min(1.0, max(0.0, share))
        now = time.monotonic()
        if now - self._last >= _PLAIN_INTERVAL:
            self._last = now
            left = stage.left()
            tail = "" if left is None else f", {duration(left)} left"
            self._write(f"{stage.what}: {stage.share:.0%}{tail}")

    def end(self) -> None:
        if self._stages:
            self._stages.pop()

    def _write(self, line: str) -> None:
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (BrokenPipeError, ValueError):
            pass


class LiveProgress:
    """A bar per open stage, drawn by Rich; finished facts scroll above it."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False)
        self._stages: list[_Stage] = []
        self._bar: object | None = None
        self._tasks: list[int] = []

    def say(self, line: str) -> None:
        self._console.print(line, markup=False)

    def begin(self, what: str, seconds: float | None = None) -> None:
        from rich.progress import BarColumn, Progress, TaskID, TextColumn

        self._stages.append(_Stage(what, seconds))
        if self._bar is None:
            bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                TextColumn("{task.percentage:>3.0f} %  {task.fields[left]}", markup=False),
                console=self._console,
                transient=True,
            )
            bar.start()
            self._bar = bar
        assert isinstance(self._bar, Progress)
        task: TaskID = self._bar.add_task(what, total=1.0, left=self._left(self._stages[-1]))
        self._tasks.append(int(task))

    def advance(self, share: float) -> None:
        from rich.progress import Progress, TaskID

        if not self._stages or not isinstance(self._bar, Progress):
            return
        stage = self._stages[-1]
        stage.share = min(1.0, max(0.0, share))
        self._bar.update(TaskID(self._tasks[-1]), completed=stage.share, left=self._left(stage))

    def end(self) -> None:
        from rich.progress import Progress, TaskID

        if not self._stages:
            return
        self._stages.pop()
        task = self._tasks.pop()
        if isinstance(self._bar, Progress):
            self._bar.remove_task(TaskID(task))
            if not self._stages:
                self._bar.stop()
                self._bar = None

    @staticmethod
    def _left(stage: _Stage) -> str:
        left = stage.left()
        return "" if left is None else f"{duration(left)} left"
