"""From stamped bytes to a RequestRecord: events, kinds, token counts, and what kind of failure it was."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from rooftune.measure.client.raw import RawAnswer
from rooftune.measure.client.sse import Event, EventParser, EventTooLong
from rooftune.store.records import ChunkKind, ChunkRecord, RequestRecord

TextPolicy = Literal["full", "hash", "off"]
_TOKEN_KINDS = ("content", "reasoning", "tool")
_DETAIL = 200


class _Answer:
    """What the events of one answer say, gathered."""

    def __init__(self) -> None:
        self.chunks: list[ChunkRecord] = []
        self.text: list[str] = []
        self.usage: dict[str, Any] | None = None
        self.finish_reason: str | None = None
        self.timings: dict[str, float] | None = None
        self.ended = False
        self.error: str | None = None
        self.error_detail: str | None = None
        self._told = 0

    def event(self, event: Event, arrival: int) -> None:
        if event.data.strip() == b"[DONE]":
            self.ended = True
            self.chunks.append(ChunkRecord(arrival, "done", event.bytes))
            return
        try:
            body = json.loads(event.data)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            self._failed("body", f"an event that is not a JSON object: {_short(event.data)}", event, arrival)
        elif body.get("error") or event.name == b"error" or body.get("object") == "error":
            self._failed("stream", _message(body), event, arrival)
        else:
            self._chunk(body, event.bytes, arrival)

    def _failed(self, error: str, detail: str, event: Event, arrival: int) -> None:
        if self.error is None:
            self.error, self.error_detail = error, detail
        self.chunks.append(ChunkRecord(arrival, "error", event.bytes))

    def _chunk(self, body: dict[str, Any], size: int, arrival: int) -> None:
        choices = body.get("choices")
        choice = (
            choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
        )
        usage = body.get("usage")
        tokens: int | None = None
        if isinstance(usage, dict):
            self.usage = usage
            told = usage.get("completion_tokens")
            if choice is not None and isinstance(told, int):
                # Usage in every chunk: the growth is this chunk's tokens.
                tokens, self._told = told - self._told, told
        kind: ChunkKind = "usage" if isinstance(usage, dict) and choice is None else "role"
        if choice is not None:
            delta = choice.get("delta")
            kind, text = _kind(delta if isinstance(delta, dict) else choice)
            if text:
                self.text.append(text)
            reason = choice.get("finish_reason")
            if isinstance(reason, str):
                self.finish_reason = reason
                if kind == "role":
                    kind = "done"
        timings = _timings(body)
        if timings:
            self.timings = timings
        known = tokens if kind in _TOKEN_KINDS and tokens is not None and tokens > 0 else None
        self.chunks.append(ChunkRecord(arrival, kind, size, known))


def decode(
    raw: RawAnswer, *, asked_output_tokens: int | None, session: int | None, text: TextPolicy
) -> RequestRecord:
    """The record of one request. Failures are named for what they are; a 200 that carries an error is an error.

    Error classes: connect, timeout, http, status_NNN, stream (cut or failed in the middle), body (a 200 whose body is
    not the asked stream), empty (ended well without a token), interrupted.
    """
    record = RequestRecord(
        index=raw.index,
        scheduled_ns=raw.scheduled_ns,
        sent_ns=raw.sent_ns,
        end_ns=raw.end_ns,
        status=raw.status,
        error=raw.error,
        error_detail=raw.error_detail,
        session=session,
        asked_output_tokens=asked_output_tokens,
    )
    if raw.status is not None and raw.status != 200:
        if raw.error is None:
            record.error = f"status_{raw.status}"
            record.error_detail = _message(_json(raw))
        return record
    if raw.error is None and raw.content_type.startswith("application/json"):
        body = _json(raw)
        record.error = "body"
        record.error_detail = (
            _message(body)
            if isinstance(body, dict) and body.get("error")
            else "answered whole, not as a stream"
        )
        return record
    answer = _events(raw)
    record.chunks = answer.chunks
    record.finish_reason = answer.finish_reason
    record.server_timings = answer.timings
    if record.error is None:
        record.error, record.error_detail = answer.error, answer.error_detail
    seen = [chunk for chunk in answer.chunks if chunk.kind in _TOKEN_KINDS]
    if record.error is None and raw.status is not None:
        if not answer.ended and answer.finish_reason is None:
            record.error, record.error_detail = "stream", "the stream ended without a finish"
        elif not seen:
            record.error, record.error_detail = "empty", "the answer held no token"
    _count(record, answer.usage, seen)
    if answer.text and text != "off":
        whole = "".join(answer.text)
        record.text = whole if text == "full" else "sha256:" + hashlib.sha256(whole.encode()).hexdigest()
    return record


def _events(raw: RawAnswer) -> _Answer:
    """Events in order. Those that share one read get the interval since the read before as their arrival."""
    answer, parser = _Answer(), EventParser()
    position = 0
    reads = raw.reads
    try:
        while position < len(reads):
            arrival, before, body = reads[position]
            position += 1
            # One read can hold several pieces of a chunked body; they have one stamp and one interval.
            while position < len(reads) and reads[position][0] == arrival:
                body += reads[position][2]
                position += 1
            first = len(answer.chunks)
            for event in parser.feed(body):
                answer.event(event, arrival)
            _mark_shared(answer.chunks[first:], before)
        for event in parser.close():
            answer.event(event, reads[-1][0] if reads else raw.scheduled_ns)
    except EventTooLong as problem:
        answer.error, answer.error_detail = "body", str(problem)
    return answer


def _mark_shared(chunks: list[ChunkRecord], before: int) -> None:
    if len(chunks) > 1:
        for chunk in chunks:
            chunk.earliest_ns = before


def _count(record: RequestRecord, usage: dict[str, Any] | None, seen: list[ChunkRecord]) -> None:
    """Token counts: the server's usage first. Without it the chunks are a lower bound, and labelled so."""
    told = _whole(usage, "completion_tokens")
    prompt = _whole(usage, "prompt_tokens")
    if prompt is not None:
        record.prompt_tokens, record.prompt_tokens_source = prompt, "usage"
    details = usage.get("prompt_tokens_details") if usage is not None else None
    record.cached_tokens = _whole(details if isinstance(details, dict) else None, "cached_tokens")
    if told is not None:
        record.output_tokens, record.output_tokens_source = told, "usage"
        if told == len(seen) and all(chunk.tokens is None for chunk in seen):
            # A chunk with text holds one token at least; as many chunks as tokens means one in each.
            for chunk in seen:
                chunk.tokens = 1
    elif seen:
        record.output_tokens, record.output_tokens_source = len(seen), "chunks"


def _kind(part: dict[str, Any]) -> tuple[ChunkKind, str]:
    """Kind and text of a chat delta or of a completion's choice."""
    for name in ("reasoning_content", "reasoning"):
        value = part.get(name)
        if isinstance(value, str) and value:
            return "reasoning", value
    for name in ("content", "text"):
        value = part.get(name)
        if isinstance(value, str) and value:
            return "content", value
    if part.get("tool_calls"):
        return "tool", json.dumps(part["tool_calls"], sort_keys=True)
    return "role", ""


def _timings(body: dict[str, Any]) -> dict[str, float] | None:
    """The server's own times in seconds: ours as told, llama.cpp's from milliseconds."""
    told = body.get("rooftune", body.get("timings"))
    if not isinstance(told, dict):
        return None
    own = {k: float(v) for k, v in told.items() if k in ("queue", "prefill", "decode") and _number(v)}
    if own:
        return own
    names = {"prompt_ms": "prefill", "predicted_ms": "decode"}
    return {names[k]: float(v) / 1e3 for k, v in told.items() if k in names and _number(v)} or None


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole(values: dict[str, Any] | None, name: str) -> int | None:
    value = values.get(name) if values is not None else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _json(raw: RawAnswer) -> Any:
    body = b"".join(read[2] for read in raw.reads)
    try:
        return json.loads(body)
    except ValueError:
        return _short(body)


def _message(body: Any) -> str:
    """The error text that a server gives, in one short line."""
    if isinstance(body, dict):
        error = body.get("error", body)
        if isinstance(error, dict):
            error = error.get("message") or error.get("detail") or json.dumps(error)
        body = error
    return " ".join(str(body).split())[:_DETAIL]


def _short(data: bytes) -> str:
    return " ".join(data[: _DETAIL * 2].decode("utf-8", "replace").split())[:_DETAIL]
