"""What is finished stays finished: an append-only record of the loop's work, from which an interrupted loop goes on.

Invariant: a line is written (and synced to disk) only after the work it names is complete and its files are in place,
so whatever the journal names can be used, and whatever it does not name is done again.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from rooftune.errors import EnvironmentProblem, WrongInput

_NAME = "journal.jsonl"


class Journal:
    """A folder's journal. One process at a time may hold it."""

    def __init__(self, folder: Path, identity: dict[str, Any], resume: bool) -> None:
        """Open or begin a journal. ``identity`` (spec and version) must agree with what an earlier part recorded.

        Raises WrongInput when the folder holds other work, EnvironmentProblem when another process is at it.
        """
        self.folder = folder
        path = folder / _NAME
        if folder.exists() and not folder.is_dir():
            raise WrongInput(f"{folder} is a file; name a folder with --out")
        if path.exists() and not resume:
            raise WrongInput(
                f"{folder} already holds an optimization; go on with --resume, or name another --out"
            )
        if not path.exists() and folder.exists() and any(folder.iterdir()):
            raise WrongInput(f"{folder} is not empty and holds no optimization; name a new folder with --out")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise WrongInput(f"{folder.parent} is not a folder; name another --out") from None
        except PermissionError:
            raise EnvironmentProblem(f"{folder} cannot be written; name another folder with --out") from None
        self._lock = self._take_lock(folder)
        self._done: dict[str, Any] = {}
        self._inner = 0.0
        self.seconds_before = 0.0
        self._read(path, identity)
        self._file: IO[str] = path.open("a", encoding="utf-8")
        self._began = time.monotonic()
        if not self._done:
            self._append("identity", identity, 0.0)

    @staticmethod
    def _take_lock(folder: Path) -> int:
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise EnvironmentProblem(
                f"another rooftune is at work in {folder}; wait for it or name another --out"
            ) from None
        return descriptor

    def _read(self, path: Path, identity: dict[str, Any]) -> None:
        if not path.exists():
            return
        good = 0
        with path.open("rb") as file:
            for raw in file:
                # A line without its end, or one that is no JSON, was being written when the process died.
                if not raw.endswith(b"\n"):
                    break
                try:
                    event = json.loads(raw)
                except ValueError:
                    break
                good += len(raw)
                self._done[event["key"]] = event["value"]
                self.seconds_before += float(event["seconds"])
        os.truncate(path, good)
        recorded = self._done.get("identity")
        if recorded is not None and recorded != identity:
            changed = sorted(k for k in {*recorded, *identity} if recorded.get(k) != identity.get(k))
            raise WrongInput(
                f"{self.folder} was begun with another {' and '.join(changed)}; --resume needs the same one"
            )

    @property
    def resumed(self) -> bool:
        return self.seconds_before > 0.0

    @property
    def finished_runs(self) -> int:
        return sum(key.startswith("run/") for key in self._done)

    def elapsed(self) -> float:
        """Seconds of work so far, earlier parts included."""
        return self.seconds_before + (time.monotonic() - self._began)

    def has(self, key: str) -> bool:
        return key in self._done

    def once(self, key: str, work: Callable[[], Any]) -> Any:
        """The recorded value of ``key``, or that of ``work()``, recorded as soon as it is done. Values are JSON."""
        if key in self._done:
            return self._done[key]
        started, outer, self._inner = time.monotonic(), self._inner, 0.0
        try:
            value = work()
            whole = time.monotonic() - started
            # Work inside this work has its own lines; counted twice it would eat the budget twice.
            self._append(key, value, whole - self._inner)
            outer += whole
        finally:
            self._inner = outer
        return value

    def _append(self, key: str, value: Any, seconds: float) -> None:
        self._file.write(
            json.dumps({"key": key, "value": value, "seconds": round(seconds, 3)}, allow_nan=False) + "\n"
        )
        self._file.flush()
        os.fsync(self._file.fileno())
        self._done[key] = value

    def close(self) -> None:
        self._file.close()
        os.close(self._lock)
