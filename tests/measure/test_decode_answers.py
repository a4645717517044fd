"""From stamped bytes to a record: kinds, counts, intervals, and failures named for what they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rooftune.measure.client.decode import decode
from rooftune.measure.client.raw import RawAnswer
from rooftune.store.records import RequestRecord


def event(body: Any) -> bytes:
    return b"data: " + (body if isinstance(body, bytes) else json.dumps(body).encode()) + b"\n\n"


def delta(content: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": content, "finish_reason": finish}], **more})


def answer(
    *reads: bytes, status: int = 200, kind: str = "text/event-stream", text: Any = "full"
) -> RequestRecord:
    raw = RawAnswer(0, scheduled_ns=0, sent_ns=10, status=status, content_type=kind, end_ns=1000)
    before = 10
    for number, body in enumerate(reads):
        arrival = 100 * (number + 1)
        raw.reads.append((arrival, before, body))
        before = arrival
    return decode(raw, asked_output_tokens=None, session=None, text=text)


USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
DONE = event(b"[DONE]")


def test_a_plain_chat_answer() -> None:
    record = answer(
        delta({"role": "assistant", "content": ""}),
        delta({"content": "He"}),
        delta({"content": "llo"}),
        delta({}, "stop"),
        event({"choices": [], "usage": USAGE, "rooftune": {"queue": 0.5, "prefill": 0.25, "decode": 1.0}}),
        DONE,
    )
    assert record.error is None and record.succeeded
    assert [c.kind for c in record.chunks] == ["role", "content", "content", "done", "usage", "done"]
    assert (record.first_token_ns, record.last_token_ns) == (200, 300)
    assert (record.prompt_tokens, record.output_tokens, record.cached_tokens) == (7, 2, 4)
    assert record.output_tokens_source == "usage"
    assert [c.tokens for c in record.chunks] == [None, 1, 1, None, None, None]
    assert record.text == "Hello" and record.finish_reason == "stop"
    assert record.server_timings == {"queue": 0.5, "prefill": 0.25, "decode": 1.0}
    assert all(c.earliest_ns is None for c in record.chunks)


def test_events_in_one_read_have_an_interval() -> None:
    record = answer(delta({"content": "a"}), delta({"content": "b"}) + delta({"content": "c"}) + DONE)
    assert [c.earliest_ns for c in record.chunks] == [None, 100, 100, 100]
    assert [c.arrival_ns for c in record.chunks] == [100, 200, 200, 200]


def test_tokens_per_chunk_from_usage_in_every_chunk() -> None:
    record = answer(
        delta({"content": "a"}, usage={"completion_tokens": 1}),
        delta({"content": "bcd"}, usage={"completion_tokens": 4}),
        delta({}, "length", usage={"completion_tokens": 4}),
        event({"choices": [], "usage": {"completion_tokens": 4}}) + DONE,
    )
    assert [c.tokens for c in record.chunks] == [1, 3, None, None, None]
    assert record.output_tokens == 4


def test_tokens_per_chunk_stay_unknown_where_nothing_tells_them() -> None:
    record = answer(
        delta({"content": "a"}),
        delta({"content": "b"}, "stop"),
        event({"choices": [], "usage": {"completion_tokens": 5}}),
    )
    assert [c.tokens for c in record.chunks if c.kind == "content"] == [None, None]
    assert record.output_tokens == 5


def test_no_usage_counts_chunks_and_says_so() -> None:
    record = answer(delta({"content": "a"}), delta({"content": "b"}, "stop"), DONE)
    assert (record.output_tokens, record.output_tokens_source) == (2, "chunks")
    assert record.prompt_tokens is None and record.cached_tokens is None


def test_reasoning_and_tools_are_first_tokens() -> None:
    assert answer(delta({"reasoning_content": "hm"}), DONE).first_token_ns == 100
    assert answer(delta({"reasoning": "hm"}), DONE).chunks[0].kind == "reasoning"
    assert answer(delta({"tool_calls": [{"index": 0}]}), DONE).chunks[0].kind == "tool"
    completion = event({"choices": [{"index": 0, "text": "x", "finish_reason": None}]})
    assert answer(completion, DONE).chunks[0].kind == "content"


@pytest.mark.parametrize(
    ("record", "error", "detail"),
    [
        (
            answer(b'{"error": {"message": "busy"}}', status=429, kind="application/json"),
            "status_429",
            "busy",
        ),
        (answer(b"<html>bad gateway</html>", status=502, kind="text/html"), "status_502", "bad gateway"),
        (answer(b'{"error": {"message": "fell"}}', kind="application/json"), "body", "fell"),
        (answer(b'{"choices": []}', kind="application/json"), "body", "not as a stream"),
        (answer(delta({"content": "a"}), event({"error": {"message": "oom"}}), DONE), "stream", "oom"),
        (answer(b'event: error\ndata: {"message": "oom"}\n\n'), "stream", "oom"),
        (answer(delta({"content": "a"})), "stream", "without a finish"),
        (answer(delta({"role": "assistant"}), delta({}, "stop"), DONE), "empty", "no token"),
        (answer(event(b"not json"), DONE), "body", "not json"),
    ],
)
def test_failures_are_named_for_what_they_are(record: RequestRecord, error: str, detail: str) -> None:
    assert record.error == error and not record.succeeded
    assert detail in str(record.error_detail)


def test_text_is_kept_hashed_or_dropped() -> None:
    pieces = (delta({"content": "secret"}), DONE)
    assert answer(*pieces, text="off").text is None
    hashed = answer(*pieces, text="hash").text
    assert hashed is not None and hashed.startswith("sha256:") and "secret" not in hashed
