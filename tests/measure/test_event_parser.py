"""Server-sent events: any split of the bytes gives the same events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rooftune.measure.client.sse import Event, EventParser

TEXT = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)
LINE_END = st.sampled_from(["\n", "\r\n", "\r"])


def slow_reference(stream: bytes) -> list[tuple[bytes, bytes]]:
    """The specification read over the whole stream at once."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events = []
    for block in text.split(b"\n\n"):
        data, name = [], b""
        for line in block.split(b"\n"):
            field, _, value = line.partition(b":")
            value = value[1:] if value.startswith(b" ") else value
            if field == b"data":
                data.append(value)
            elif field == b"event":
                name = value
        if data:
            events.append((b"\n".join(data), name))
    return events


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Whole events with mixed line ends, comments, unknown fields and data lines with and without the space."""
    out = draw(st.sampled_from(["", "\ufeff"]))
    for _ in range(draw(st.integers(0, 5))):
        for _ in range(draw(st.integers(0, 4))):
            prefix = draw(st.sampled_from(["data: ", "data:", ": ", "event: ", "id: ", "retry:"]))
            out += prefix + draw(TEXT) + draw(LINE_END)
        end = draw(st.sampled_from(["\n", "\r\n"]))
        out += end
    return out.encode()


def parse(pieces: list[bytes]) -> list[Event]:
    parser = EventParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.close()


@given(streams(), st.data())
def test_any_split_gives_the_same_events(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    whole = parse([stream])
    assert parse(pieces) == whole
    assert parse([stream[i : i + 1] for i in range(len(stream))]) == whole


@given(streams())
def test_events_are_those_of_the_specification(stream: bytes) -> None:
    if b"\r\n" in stream and b"\r\r\n" in stream:
        return  # a lone \r before \r\n is an empty line to one reading of the replaced text and not to the other
    assert [(e.data, e.name) for e in parse([stream])] == slow_reference(stream)


def test_forms_that_servers_really_send() -> None:
    assert [e.data for e in parse([b"data:{}\r\n\r\ndata: [DONE]\r\n\r\n"])] == [b"{}", b"[DONE]"]
    assert [e.data for e in parse([b": keep-alive\n\ndata: a\n\n"])] == [b"a"]
    assert [e.data for e in parse([b"data: a\ndata: b\n\n"])] == [b"a\nb"]
    # The stream ends without the last blank line.
    assert [e.data for e in parse([b"data: a\n\ndata: [DONE]"])] == [b"a", b"[DONE]"]
    split = "data: é\n\n".encode()
    assert [e.data for e in parse([split[:7], split[7:]])] == ["é".encode()]
