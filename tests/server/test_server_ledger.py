"""Every pair of switches, over HTTP: the answers stay the same, and the ledger shows what was on, by a counter."""

from __future__ import annotations

import threading
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rooftune.runtimes.embedded.server import HttpServer
from tests.server.hosting import Hosted, host

PLAIN = "/v1/completions"
SHARED = "the same long beginning that fills several pages of sixteen tokens, again and again: "
PROMPTS = [SHARED + tail for tail in ("one", "two", "three", "four", "five", "six")]


def traffic(hosted: Hosted) -> list[str]:
    """Requests that overlap: all but the first come while others run; the texts in order of the prompts."""
    texts = ["" for _ in PROMPTS]

    def ask(index: int) -> None:
        body = {"prompt": PROMPTS[index], "max_tokens": 12, "temperature": 0, "ignore_eos": True}
        texts[index] = hosted.json("POST", PLAIN, body)["choices"][0]["text"]

    ask(0)
    threads = [threading.Thread(target=ask, args=(index,)) for index in range(len(PROMPTS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return texts


@pytest.fixture(scope="module")
def alone(tiny_model: Path) -> list[str]:
    """The oracle: one request at a time, no technique."""
    with host(tiny_model, batching="static", slots=1, prefix_cache="none", chunked_prefill=False) as hosted:
        return [
            hosted.json("POST", PLAIN, {"prompt": p, "max_tokens": 12, "temperature": 0, "ignore_eos": True})[
                "choices"
            ][0]["text"]
            for p in PROMPTS
        ]


# Each pair of settings of two switches occurs in at least one row.
ROWS: list[dict[str, Any]] = [
    {
        "batching": batching,
        "prefix_cache": cache,
        "chunked_prefill": chunked,
        "slots": slots,
        "token_budget": budget,
    }
    for batching, cache, chunked, slots, budget in (
        ("static", "none", False, 2, 256),
        ("static", "hash", True, 4, 32),
        ("dynamic", "none", True, 4, 32),
        ("dynamic", "hash", False, 2, 256),
        ("dynamic", "hash", True, 2, 32),
        ("continuous", "none", True, 2, 32),
        ("continuous", "hash", False, 4, 256),
        ("continuous", "hash", True, 4, 256),
        ("static", "none", True, 4, 256),
        ("continuous", "none", False, 4, 32),
        ("static", "hash", False, 4, 32),
        ("dynamic", "none", False, 4, 256),
    )
]


def test_the_rows_cover_every_pair() -> None:
    names = list(ROWS[0])
    values = {name: {row[name] for row in ROWS} for name in names}
    for one, other in ((a, b) for a in names for b in names if a < b):
        seen = {(row[one], row[other]) for row in ROWS}
        missing = set(product(values[one], values[other])) - seen
        assert not missing, (one, other, missing)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(map(str, row.values())))
def test_a_pair_of_switches(tiny_model: Path, alone: list[str], row: dict[str, Any]) -> None:
    with host(tiny_model, **row) as hosted:
        server = HttpServer(hosted.url, hosted.model)
        before = server.observe()
        assert traffic(hosted) == alone
        after = server.observe()
        entries = {entry.switch: entry for entry in server.ledger(before, after)}
        resolved = server.resolved()
    assert resolved is not None
    for name, value in row.items():
        assert resolved[name] == value
        assert entries[name].requested == value
    for name in ("batching", "weight_kernel"):
        assert entries[name].active is True and (entries[name].moved or 0) > 0, entries[name]
    assert entries["slots"].active is True and entries["pool_tokens"].active is True
    cache = entries["prefix_cache"]
    assert cache.active is (row["prefix_cache"] == "hash") and bool(cache.moved) is cache.active, cache
    chunked = entries["chunked_prefill"]
    if not row["chunked_prefill"]:
        assert chunked.active is False and not chunked.moved
    elif row["token_budget"] == 32 and row["prefix_cache"] == "none":
        assert chunked.active is True and chunked.moved, chunked
    if row["batching"] == "dynamic":
        assert entries["batch_wait"].requested == 0.05
