"""One HTTP/1.1 connection: writes prepared bytes, stamps every read first, parses the framing with httptools."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Any

import httptools

from rooftune.measure.client.raw import RawAnswer

_LARGEST_ANSWER = 256 << 20


class Connection(asyncio.Protocol):
    """Carries one request at a time. ``done`` resolves when its answer ended, well or not (see ``answer.error``)."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.answer: RawAnswer | None = None
        self.done: asyncio.Future[None] | None = None
        self.served = 0
        self.reusable = False
        self._parser: Any = None
        self._now = 0
        self._framed = False
        self._bytes_seen = False

    @property
    def idle(self) -> bool:
        return self.answer is None and self.transport is not None and not self.transport.is_closing()

    @property
    def stale(self) -> bool:
        """The connection was used before and died before a byte of this answer: the server had closed it meanwhile."""
        return self.served > 0 and not self._bytes_seen

    def send(self, payload: bytes, answer: RawAnswer) -> asyncio.Future[None]:
        """Write a whole request; the returned future resolves at the end of its answer."""
        assert self.transport is not None
        assert self.answer is None
        self.answer = answer
        self.reusable = False
        self._parser = httptools.HttpResponseParser(self)
        self._framed = False
        self._bytes_seen = False
        self.done = asyncio.get_running_loop().create_future()
        self.transport.write(payload)
        answer.sent_ns = answer.last_ns = time.monotonic_ns()
        return self.done

    def data_received(self, data: bytes) -> None:
        self._now = time.monotonic_ns()
        answer = self.answer
        if answer is None:
            # Nothing was asked: whatever this is, it must not be taken for the next answer.
            self.abort()
            return
        self._bytes_seen = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as problem:
            # A failure raised inside a callback arrives here too; the answer may have been closed by then.
            if self.answer is answer:
                self._finish("http", f"not HTTP/1.1 ({type(problem).__name__})")
            self.abort()
            return
        answer.last_ns = self._now

    def on_header(self, name: bytes, value: bytes) -> None:
        lowered = name.lower()
        if lowered == b"content-type" and self.answer is not None:
            self.answer.content_type = value.decode("latin-1").lower()
        elif lowered in (b"content-length", b"transfer-encoding"):
            self._framed = True

    def on_headers_complete(self) -> None:
        if self.answer is not None:
            self.answer.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        answer = self.answer
        if answer is None:
            return
        answer.reads.append((self._now, answer.last_ns, body))
        answer.size += len(body)
        if answer.size > _LARGEST_ANSWER:
            self._finish("body", "an answer above 256 MiB")
            self.abort()

    def on_message_complete(self) -> None:
        status = self.answer.status if self.answer is not None else None
        if status is not None and 100 <= status < 200:
            return
        self.reusable = bool(self._parser.should_keep_alive())
        self._finish(None, None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._now = time.monotonic_ns()
        if self.answer is None:
            return
        if exc is None and self.answer.status is not None and not self._framed:
            # A body without a length ends where the connection does (RFC 9112, 6.3).
            self._finish(None, None)
        elif self.answer.status is None:
            self._finish("connect", "the server closed the connection without an answer")
        else:
            self._finish("stream", "the server closed the connection in the middle of its answer")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def fail(self, error: str, detail: str) -> None:
        """End the request in flight from our side (timeout, interrupted)."""
        self._now = time.monotonic_ns()
        self._finish(error, detail)
        self.abort()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _finish(self, error: str | None, detail: str | None) -> None:
        answer, done = self.answer, self.done
        if answer is None:
            return
        self.answer, self.done = None, None
        self.served += 1
        answer.end_ns = self._now
        answer.error, answer.error_detail = error, detail
        if done is not None and not done.done():
            done.set_result(None)


class Pool:
    """Connections to one server, reused last-in first-out. ``limit`` bounds how many are open."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, limit: int) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._idle: list[Connection] = []
        self._slots = asyncio.Semaphore(limit)
        self.opened = 0

    def take(self) -> Connection | None:
        """An idle connection, or None."""
        while self._idle:
            connection = self._idle.pop()
            if connection.idle:
                return connection
            self._slots.release()
        return None

    async def open(self) -> Connection:
        """A new connection. Raises OSError (refused, unknown host) or ssl.SSLError."""
        await self._slots.acquire()
        # While it waited one may have come back.
        returned = self.take()
        if returned is not None:
            self._slots.release()
            return returned
        try:
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(
                Connection,
                self._host,
                self._port,
                ssl=self._tls,
                server_hostname=self._host if self._tls is not None else None,
            )
        except BaseException:
            self._slots.release()
            raise
        self.opened += 1
        return connection

    def give(self, connection: Connection) -> None:
        """Hand a connection back: kept where its server keeps it, else closed."""
        if connection.reusable and connection.idle:
            self._idle.append(connection)
            return
        connection.abort()
        self._slots.release()

    async def warm(self, count: int) -> None:
        """Open connections before the run, so that no request pays for the handshake."""
        opened = await asyncio.gather(*(self.open() for _ in range(count)))
        for connection in opened:
            connection.reusable = True
            self.give(connection)

    def close(self) -> None:
        for connection in self._idle:
            connection.abort()
        self._idle.clear()
