"""A child process that ends when its parent does, however the parent ended."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_POLL = 0.5


def die_with_parent(parent: int, end: Callable[[], None] | None = None) -> None:
    """Call ``end`` (default: leave at once) as soon as process ``parent`` is gone. Main thread only.

    Two ways that cover each other: a watch on the parent's process id, and the kernel's parent-death signal. The
    signal also comes when only the *thread* of the parent that started this process ends, so it is a signal of its
    own whose handler looks whether the process is really gone.
    """
    leave = end or (lambda: os._exit(0))
    gone = _watch_of(parent)
    if gone is None:
        leave()
        return
    if sys.platform == "linux":
        signal.signal(signal.SIGUSR2, lambda *_: leave() if gone(0.0) else None)
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGUSR2), 0, 0, 0)

    def watch() -> None:
        while not gone(_POLL):
            pass
        leave()

    threading.Thread(target=watch, name="rooftune-parent-watch", daemon=True).start()


def _watch_of(parent: int) -> Callable[[float], bool] | None:
    """A function that waits so many seconds at most and says whether the parent is gone; None if it is already."""
    if hasattr(os, "pidfd_open"):
        try:
            handle = os.pidfd_open(parent)
        except ProcessLookupError:
            return None
        except OSError:  # a kernel or container without process handles
            return _polling(parent)
        return lambda seconds: _ended(handle, seconds)
    return _polling(parent)


def _ended(handle: int, seconds: float) -> bool:
    """Whether a process handle says that its process is over. A poll object of its own for each call: the signal's handler
    asks while the watch is waiting, and one object refuses two askers at once with an exception in the midst of the server."""
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    return bool(poller.poll(int(seconds * 1000)))


def _polling(parent: int) -> Callable[[float], bool] | None:
    if not _alive(parent):
        return None
    direct = os.getppid() == parent

    def gone(seconds: float) -> bool:
        time.sleep(seconds)
        return os.getppid() != parent if direct else not _alive(parent)

    return gone


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
