"""A client that goes away frees its pages, in whatever state its request is."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rooftune.engine.model.load import load_runner
from tests.server.hosting import Hosted, ScriptedRunner, host, wait_for

PLAIN = "/v1/completions"


def all_free(hosted: Hosted) -> bool:
    gauges = hosted.json("GET", "/rooftune/stats")["gauges"]
    return bool(
        gauges["pages_free"] + gauges["pages_cached"] == gauges["pages_total"]
        and gauges["running"] == gauges["waiting"] == gauges["open_requests"] == 0
    )


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("moment", ["queued", "prefill", "decode", "finished"])
def test_hanging_up_frees_everything(tiny_model: Path, moment: str, stream: bool) -> None:
    loaded = load_runner(tiny_model, "reference", 1)
    runner = ScriptedRunner(267, 2, [97, 98])
    with host(loaded, runner=runner, slots=1, prefix_cache="none") as hosted:
        long = {"prompt": "a" * 300, "max_tokens": 200, "stream": stream, "ignore_eos": True}
        runner.gate.clear()
        first = hosted.open_stream(PLAIN, long)
        assert wait_for(lambda: hosted.engine.stats().waiting == 0 and hosted.service.bridge.open == 1)
        second = hosted.open_stream(PLAIN, long)
        assert wait_for(lambda: hosted.service.bridge.open == 2)
        if moment == "queued":
            second.close()
            # Known to be aborted while the first still computes.
            assert wait_for(lambda: hosted.service.bridge.open == 1)
            first.close()
        elif moment == "prefill":
            first.close()
            second.close()
        elif moment == "decode":
            runner.gate.set()
            assert wait_for(lambda: hosted.engine.stats().generation_tokens > 3)
            runner.gate.clear()
            first.close()
            second.close()
        else:
            runner.gate.set()
            assert wait_for(lambda: hosted.service.bridge.open == 0, 20)
            first.close()
            second.close()
        runner.gate.set()
        assert wait_for(lambda: all_free(hosted))
        stats = hosted.engine.stats()
        assert stats.pages_free == stats.pages_total
        if moment != "finished":
            assert stats.finished.get("abort") == 2
        # Nothing is left in the way of the next client.
        assert hosted.json("POST", PLAIN, {"prompt": "ab", "max_tokens": 3})["choices"][0]["text"] == "aba"


def test_a_client_that_never_reads_holds_no_pages(tiny_model: Path) -> None:
    loaded = load_runner(tiny_model, "reference", 1)
    with host(loaded, runner=ScriptedRunner(267, 2, [97, 98]), prefix_cache="none") as hosted:
        lazy = hosted.open_stream(
            PLAIN, {"prompt": "ab", "max_tokens": 400, "stream": True, "logprobs": 20, "n": 8}
        )
        assert wait_for(lambda: hosted.engine.stats().finished.get("length") == 8, 20)
        assert hosted.engine.stats().pages_used == 0
        lazy.close()
        assert wait_for(lambda: all_free(hosted))


def test_random_hang_ups_leave_nothing_behind(hosted: Hosted) -> None:
    """Many clients that leave at random moments, beside some that stay and must get their whole answer."""
    chance = random.Random(4)
    failures: list[Any] = []

    def stay() -> None:
        for _ in range(3):
            answer = hosted.json(
                "POST", PLAIN, {"prompt": "the answer", "max_tokens": 20, "ignore_eos": True}
            )
            if answer["usage"]["completion_tokens"] != 20:
                failures.append(answer)

    def leave(delays: list[float]) -> None:
        for delay in delays:
            body = {"prompt": "an " * 40, "max_tokens": 200, "n": 2, "stream": True, "ignore_eos": True}
            connection = hosted.open_stream(PLAIN, body)
            time.sleep(delay)
            connection.close()

    threads = [threading.Thread(target=stay) for _ in range(2)]
    threads += [
        threading.Thread(target=leave, args=([chance.uniform(0, 0.08) for _ in range(8)],)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert wait_for(lambda: all_free(hosted), 20)
    assert hosted.json("GET", "/health")["status"] == "ok"


def test_stopping_the_server_ends_running_answers(tiny_model: Path) -> None:
    loaded = load_runner(tiny_model, "reference", 1)
    runner = ScriptedRunner(267, 2, [97, 98])
    with host(loaded, runner=runner) as hosted:
        connection = hosted.open_stream(PLAIN, {"prompt": "ab", "max_tokens": 40, "stream": True})
        assert wait_for(lambda: hosted.engine.stats().generation_tokens > 1)
    # An answer that runs when the stop comes is finished within the grace time.
    data = b""
    while part := connection.recv(65536):
        data += part
    connection.close()
    assert b"[DONE]" in data
    assert hosted.engine.stats().alive is False and hosted.engine.stats().pages_used == 0
