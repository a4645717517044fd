"""Helpers that run a server in a thread, on a tiny model or on a runner that follows a script."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import torch

from rooftune.engine.contracts import EngineConfig, SequenceSlice
from rooftune.engine.engine import Engine
from rooftune.engine.model.load import LoadedModel, load_runner
from rooftune.engine.server.binding import bind, url_of
from rooftune.engine.server.run import Running, build_service
from rooftune.engine.server.service import Limits, Service

SMALL = {"weight_kernel": "reference", "pool_tokens": 2048, "threads": 2}


class ScriptedRunner:
    """Gives the tokens of a script, one by one, after a prompt of known length. ``gate`` holds every step."""

    maximum_context = 512

    def __init__(self, vocabulary: int, prompt_length: int, script: Sequence[int]) -> None:
        self.vocabulary = vocabulary
        self.gate = threading.Event()
        self.gate.set()
        self.steps = 0
        self._prompt_length = prompt_length
        self._script = script

    def allocate(self, pages: int, page_size: int) -> None:
        pass

    def forward(self, slices: Sequence[SequenceSlice]) -> torch.Tensor:
        self.gate.wait(30)
        self.steps += 1
        rows = []
        for one in slices:
            for back in range(one.logits - 1, -1, -1):
                index = one.context + len(one.tokens) - back - self._prompt_length
                row = torch.full((self.vocabulary,), -10.0)
                row[self._script[index % len(self._script)]] = 10.0
                rows.append(row)
        return torch.stack(rows) if rows else torch.empty(0, self.vocabulary)

    def describe(self) -> dict[str, Any]:
        return {"name": "scripted"}

    def counters(self) -> dict[str, int]:
        return {"reference_steps": self.steps}


class Hosted:
    def __init__(self, service: Service, engine: Engine, url: str) -> None:
        self.service = service
        self.engine = engine
        self.url = url
        self.port = int(url.rsplit(":", 1)[1])
        self._clients: dict[str, openai.OpenAI] = {}

    @property
    def model(self) -> str:
        return self.service.model.name

    def client(self, key: str = "none") -> openai.OpenAI:
        # Kept: making one reads the system's certificates, which takes longer than a test.
        if key not in self._clients:
            self._clients[key] = openai.OpenAI(
                base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=30
            )
        return self._clients[key]

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            connection.request(method, path, raw, headers or {})
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def json(self, method: str, path: str, body: Any = None) -> Any:
        status, _, raw = self.request(method, path, body)
        assert status == 200, raw
        return json.loads(raw)

    def events(self, path: str, body: dict[str, Any]) -> list[Any]:
        """Parsed events of a stream, the text "[DONE]" last."""
        status, headers, raw = self.request("POST", path, {**body, "stream": True})
        assert status == 200, raw
        assert headers["content-type"].startswith("text/event-stream")
        events = [event.removeprefix("data: ") for event in raw.decode().split("\n\n") if event]
        return [event if event == "[DONE]" else json.loads(event) for event in events]

    def open_stream(self, path: str, body: dict[str, Any], key: str = "none") -> socket.socket:
        """A raw connection with a request sent, for hanging up."""
        raw = json.dumps(body).encode()
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        head = f"POST {path} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {key}\r\n"
        head += f"content-length: {len(raw)}\r\n\r\n"
        connection.sendall(head.encode() + raw)
        return connection


def wait_for(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Poll until it holds; False when it did not in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


@contextmanager
def host(
    model: Path | LoadedModel,
    *,
    runner: ScriptedRunner | None = None,
    key: str | None = None,
    limits: Limits | None = None,
    **settings: Any,
) -> Iterator[Hosted]:
    config = EngineConfig(**{**SMALL, **settings})
    loaded = load_runner(model, config.weight_kernel, config.threads) if isinstance(model, Path) else model
    if runner is not None:
        loaded = replace(loaded, runner=runner)  # type: ignore[arg-type]
    service, engine = build_service(loaded, config, key, limits)
    bound = bind("127.0.0.1", 0)
    url = url_of(bound)
    running = Running(service, engine, bound)
    ready = threading.Event()
    thread = threading.Thread(target=running.serve, args=(ready.set, False))
    thread.start()
    try:
        assert ready.wait(20), "the server did not start"
        yield Hosted(service, engine, url)
    finally:
        if runner is not None:
            runner.gate.set()
        running.stop()
        thread.join(20)
        bound.close()
        assert not thread.is_alive()
