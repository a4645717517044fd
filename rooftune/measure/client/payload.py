"""Whole HTTP requests as bytes, made before the run so that sending costs one write."""

from __future__ import annotations

import json
from typing import Any

from rooftune.errors import WrongInput
from rooftune.measure.target import Target, address_of, request_headers
from rooftune.workload.schedule import Entry

_OURS = ("messages", "prompt", "stream", "stream_options", "model")


def request_body(target: Target, entry: Entry) -> dict[str, Any]:
    """The OpenAI request of one entry. A given body's own fields win over the schedule's, except those we must set."""
    chat = entry.messages is not None if target.api == "auto" else target.api == "chat"
    body: dict[str, Any] = {"model": target.model}
    if chat:
        body["messages"] = list(entry.messages or ({"role": "user", "content": entry.prompt},))
    else:
        body["prompt"] = entry.prompt if entry.prompt is not None else _flat(entry)
    body["max_tokens"] = entry.max_tokens
    body.update(entry.body)
    if entry.fixed_output and target.ignore_eos:
        body["ignore_eos"] = True
        body["min_tokens"] = entry.max_tokens
    for name in target.extra_body:
        if name in _OURS:
            raise WrongInput(f"the extra body may not set '{name}', which the measurement needs")
    body.update(target.extra_body)
    body["stream"] = True
    body["stream_options"] = {"include_usage": True}
    if target.continuous_usage:
        body["stream_options"]["continuous_usage_stats"] = True
    return body


def payload(target: Target, entry: Entry) -> bytes:
    """The request as it goes over the wire. Holds the API key: never log or keep it."""
    address = address_of(target.url)
    body = request_body(target, entry)
    content = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    lines = [
        f"POST {address.base}{path} HTTP/1.1",
        f"Host: {address.host_header}",
        "Content-Type: application/json",
        "Accept: text/event-stream",
        f"Content-Length: {len(content)}",
        *(f"{name}: {value}" for name, value in request_headers(target)),
    ]
    return "\r\n".join(lines).encode("latin-1", "strict") + b"\r\n\r\n" + content


def _flat(entry: Entry) -> str:
    return "\n\n".join(str(message.get("content", "")) for message in entry.messages or ())
