"""Server-sent events, read incrementally: any split of the bytes gives the same events.

Takes \\n, \\r\\n and \\r as line ends, ``data:`` with or without the space, comments, several data lines, a byte order
mark, events split anywhere (also inside a UTF-8 character), and several events in one read. WHATWG HTML, section 9.2.6.
"""

from __future__ import annotations

from dataclasses import dataclass

_LONGEST_EVENT = 16 << 20


class EventTooLong(ValueError):
    """An event above 16 MiB, which no answer needs."""


@dataclass(frozen=True, slots=True)
class Event:
    """``bytes`` counts the event's lines as received, without their line ends (whose number depends on the sender)."""

    data: bytes
    name: bytes
    bytes: int


class EventParser:
    """One stream's parser. Bytes in, whole events out."""

    __slots__ = ("_data", "_held", "_name", "_size", "_skip_newline", "_started")

    def __init__(self) -> None:
        self._held = b""
        self._data: list[bytes] = []
        self._name = b""
        self._size = 0
        self._skip_newline = False
        self._started = False

    def feed(self, chunk: bytes) -> list[Event]:
        """Events that are complete with these bytes."""
        if not chunk:
            return []
        if self._skip_newline:
            # The line end before was a \r: a \n right behind it belongs to it.
            self._skip_newline = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        text = self._held + chunk
        if not self._started:
            if len(text) < 3 and b"\xef\xbb\xbf".startswith(text):
                self._held = text
                return []
            self._started = True
            text = text.removeprefix(b"\xef\xbb\xbf")
        lines = text.splitlines(keepends=True)
        self._held = b""
        if lines and lines[-1][-1:] not in (b"\n", b"\r"):
            self._held = lines.pop()
        elif lines and lines[-1][-1:] == b"\r":
            self._skip_newline = True
        if len(self._held) + self._size > _LONGEST_EVENT:
            raise EventTooLong("an event longer than 16 MiB")
        events = []
        for line in lines:
            content = line.rstrip(b"\r\n")
            self._size += len(content)
            event = self._line(content)
            if event is not None:
                events.append(event)
        return events

    def close(self) -> list[Event]:
        """At the end of the stream: a last event that lacks its blank line (some servers end so after ``[DONE]``)."""
        if self._held:
            self._size += len(self._held)
            self._line(self._held)
            self._held = b""
        event = self._dispatch()
        return [] if event is None else [event]

    def _line(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        return None

    def _dispatch(self) -> Event | None:
        data, name, size = self._data, self._name, self._size
        self._data, self._name, self._size = [], b"", 0
        return Event(b"\n".join(data), name, size) if data else None
