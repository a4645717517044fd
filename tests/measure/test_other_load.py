"""What other programs took of the machine: seen when there is such a program, and nobody's fault when there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from rooftune.measure.gates import OTHERS_LIMIT
from rooftune.measure.others import OtherLoad


def test_a_busy_stranger_is_seen_and_the_own_server_is_not() -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.3)
        with OtherLoad(os.getpid()) as as_stranger:
            time.sleep(1.0)
        with OtherLoad(busy.pid) as as_server:
            time.sleep(1.0)
    finally:
        busy.kill()
        busy.wait()
    assert as_stranger.share is not None
    assert as_server.share is not None
    assert as_stranger.share > OTHERS_LIMIT
    assert as_server.share < as_stranger.share


def test_without_the_server_s_process_there_is_no_reading() -> None:
    with OtherLoad(None) as unknown:
        pass
    assert unknown.share is None


def test_a_server_that_is_gone_gives_no_reading() -> None:
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    with OtherLoad(gone.pid) as reading:
        pass
    assert reading.share is None
