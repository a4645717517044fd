"""A server that answers after known times: what the client measures against it is the client's own error.

Also misbehaves on request, so that every failure can be tested. `python -m rooftune.measure.null_server` runs it in a
process of its own (the port is printed), `running()` in a thread.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Fault = Literal[
    "none",
    "status_429",
    "status_500",
    "error_body",
    "error_event",
    "close_midstream",
    "no_answer",
    "empty",
    "whole_answer",
    "no_usage",
    "not_http",
]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How it answers. Times in seconds.

    tokens_per_chunk: above 1 several tokens share an event. honours_length: off, every answer has ``tokens`` tokens
    whatever is asked. stall_every, stall_for: from its start the server stands still for ``stall_for`` at the end of
    each period of ``stall_every``: nothing is sent in that time. fault_every: every n-th request fails with ``fault``
    (1: all). drops_connection: closes it behind each answer without having said so. slots: requests served at a time, 0 for no limit. split: bytes per write, 0 for whole events.
    """

    ttft: float = 0.02
    itl: float = 0.005
    tokens: int = 16
    text: str = "tok "
    tokens_per_chunk: int = 1
    honours_length: bool = True
    stall_every: float = 0.0
    stall_for: float = 0.0
    fault: Fault = "none"
    fault_every: int = 1
    slots: int = 0
    split: int = 0
    line_end: str = "\n\n"
    drops_connection: bool = False
    prompt_tokens: int = 100
    cached_tokens: int | None = None
    model: str = "null"
    owned_by: str = "rooftune"


@dataclass(slots=True)
class NullServer:
    """The state of a running server: what it received, for tests to look at."""

    behaviour: Behaviour
    port: int = 0
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    connections: int = 0
    started: float = 0.0
    _slots: asyncio.Semaphore | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, port: int = 0) -> asyncio.Server:
        if self.behaviour.slots:
            self._slots = asyncio.Semaphore(self.behaviour.slots)
        server = await asyncio.start_server(self._connection, "127.0.0.1", port, backlog=1024)
        self.port = int(server.sockets[0].getsockname()[1])
        self.started = time.monotonic()
        return server

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._request(reader, writer):
                if self.behaviour.drops_connection and self.requests:
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request; whether the connection goes on."""
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = first.split(" ", 2)
        if method == "GET":
            page = self._page(path)
            self._json(writer, 404 if page is None else 200, page or {"error": {"message": "no such page"}})
            return True
        if path.endswith("/tokenize"):
            asked = json.loads(body)
            text = " ".join(
                str(m["content"]) for m in asked.get("messages", [{"content": asked.get("prompt", "")}])
            )
            self._json(writer, 200, {"count": len(text.split()) + 9})
            return True
        self.requests.append(json.loads(body))
        self.headers.append(headers)
        number = len(self.requests)
        if self._slots is None:
            return await self._answer(writer, self.requests[-1], path, number)
        async with self._slots:
            return await self._answer(writer, self.requests[-1], path, number)

    def _page(self, path: str) -> dict[str, Any] | None:
        if path.endswith("/models"):
            return {
                "object": "list",
                "data": [
                    {"id": self.behaviour.model, "object": "model", "owned_by": self.behaviour.owned_by}
                ],
            }
        return {"version": "null"} if path in ("/version", "/health") else None

    async def _answer(
        self, writer: asyncio.StreamWriter, asked: dict[str, Any], path: str, number: int
    ) -> bool:
        how = self.behaviour
        fault: Fault = how.fault if number % how.fault_every == 0 else "none"
        begin = time.monotonic()
        if fault == "no_answer":
            await asyncio.sleep(3600)
        if fault == "not_http":
            writer.write(b"garbage garbage\r\n\r\n")
            return False
        if fault in ("status_429", "status_500"):
            self._json(writer, int(fault[-3:]), {"error": {"message": f"refused with {fault[-3:]}"}})
            return True
        await self._until(begin + how.ttft)
        if fault == "error_body":
            self._json(writer, 200, {"error": {"message": "the model fell over", "code": 500}})
            return True
        if fault == "whole_answer":
            self._json(writer, 200, {"choices": [{"message": {"content": "all at once"}}]})
            return True
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        alive = await self._stream(writer, asked, path.endswith("/chat/completions"), begin, fault)
        if alive:
            writer.write(b"0\r\n\r\n")
        return alive

    async def _stream(
        self, writer: asyncio.StreamWriter, asked: dict[str, Any], chat: bool, begin: float, fault: Fault
    ) -> bool:
        how = self.behaviour
        total = how.tokens
        if how.honours_length:
            limit = int(asked.get("max_tokens", how.tokens))
            total = limit if asked.get("ignore_eos") else min(how.tokens, limit)
        every = bool((asked.get("stream_options") or {}).get("continuous_usage_stats"))
        if fault == "empty":
            total = 0
        if chat:
            await self._event(writer, self._chunk(chat, {"role": "assistant", "content": ""}))
        sent = 0
        while sent < total:
            if sent:
                step = sent // how.tokens_per_chunk
                await self._until(begin + how.ttft + step * how.itl * how.tokens_per_chunk)
            count = min(how.tokens_per_chunk, total - sent)
            sent += count
            content = how.text * count
            body = self._chunk(chat, {"content": content} if chat else content)
            if every and fault != "no_usage":
                body["usage"] = self._usage(sent)
            await self._event(writer, body)
            if fault == "error_event" and sent * 2 >= total:
                await self._event(writer, {"error": {"message": "out of memory", "code": 500}})
                return True
            if fault == "close_midstream" and sent * 2 >= total:
                await writer.drain()
                return False
        finish = self._chunk(chat, {} if chat else "")
        finish["choices"][0]["finish_reason"] = "length"
        await self._event(writer, finish)
        if fault != "no_usage":
            await self._event(
                writer, {"object": "chat.completion.chunk", "choices": [], "usage": self._usage(total)}
            )
        await self._event(writer, "[DONE]")
        return True

    def _usage(self, tokens: int) -> dict[str, Any]:
        usage: dict[str, Any] = {
            "prompt_tokens": self.behaviour.prompt_tokens,
            "completion_tokens": tokens,
            "total_tokens": self.behaviour.prompt_tokens + tokens,
        }
        if self.behaviour.cached_tokens is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self.behaviour.cached_tokens}
        return usage

    @staticmethod
    def _chunk(chat: bool, content: Any) -> dict[str, Any]:
        choice = {"index": 0, ("delta" if chat else "text"): content, "finish_reason": None}
        return {"object": "chat.completion.chunk" if chat else "text_completion", "choices": [choice]}

    async def _event(self, writer: asyncio.StreamWriter, body: Any) -> None:
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        data = f"data: {text}{self.behaviour.line_end}".encode()
        if not self.behaviour.split:
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            return
        for at in range(0, len(data), self.behaviour.split):
            piece = data[at : at + self.behaviour.split]
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(0.0005)

    async def _until(self, moment: float) -> None:
        """Sleep until a time, or until the end of a stall that covers it."""
        how = self.behaviour
        if how.stall_for:
            phase = (moment - self.started) % how.stall_every
            if phase >= how.stall_every - how.stall_for:
                moment += how.stall_every - phase
        left = moment - time.monotonic()
        if left > 0:
            await asyncio.sleep(left)

    @staticmethod
    def _json(writer: asyncio.StreamWriter, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        writer.write(
            b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (status, len(content), content)
        )


@contextlib.contextmanager
def running(behaviour: Behaviour | None = None) -> Iterator[NullServer]:
    """A null server in a thread of this process, on a free port."""
    state = NullServer(behaviour or Behaviour())
    ready, loop = threading.Event(), asyncio.new_event_loop()

    async def main() -> None:
        server = await state.serve()
        ready.set()
        try:
            await server.serve_forever()
        except asyncio.CancelledError:
            server.close()

    task: asyncio.Task[None] | None = None

    def work() -> None:
        nonlocal task
        asyncio.set_event_loop(loop)
        task = loop.create_task(main())
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        left = asyncio.all_tasks(loop)
        for other in left:
            other.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()

    thread = threading.Thread(target=work, name="null-server", daemon=True)
    thread.start()
    if not ready.wait(10.0):
        raise RuntimeError("the null server did not start")
    try:
        yield state
    finally:
        if task is not None:
            loop.call_soon_threadsafe(task.cancel)
        thread.join(10.0)


def main(arguments: list[str] | None = None) -> None:
    """Serve until stopped; the first line of standard output is the port."""
    parser = argparse.ArgumentParser(description="A server with known times, to measure a client by.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ttft", type=float, default=Behaviour().ttft, help="seconds to the first token")
    parser.add_argument("--itl", type=float, default=Behaviour().itl, help="seconds between tokens")
    parser.add_argument("--tokens", type=int, default=Behaviour().tokens)
    given = parser.parse_args(arguments)

    async def work() -> None:
        state = NullServer(Behaviour(ttft=given.ttft, itl=given.itl, tokens=given.tokens))
        server = await state.serve(given.port)
        print(state.port, flush=True)
        await server.serve_forever()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(work())


if __name__ == "__main__":
    main()
