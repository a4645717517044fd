"""The watch on the parent can be asked by the signal's handler while its own thread waits."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

from rooftune.runtimes.embedded.parent import _watch_of


def test_two_may_ask_at_once() -> None:
    gone = _watch_of(os.getpid())
    assert gone is not None
    waiting = threading.Thread(target=gone, args=(1.0,))
    waiting.start()
    time.sleep(0.2)
    try:
        assert gone(0.0) is False
    finally:
        waiting.join()


def test_a_process_that_ends_is_seen() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    gone = _watch_of(child.pid)
    assert gone is not None
    assert gone(0.0) is False
    child.kill()
    child.wait()
    assert gone(1.0) is True
