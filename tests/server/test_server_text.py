"""Stop strings and UTF-8 over pieces: the cut must not show."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooftune.engine.contracts import TokenLogprob
from rooftune.engine.model.hugging_face import read_hugging_face
from rooftune.engine.model.source import ModelSource
from rooftune.engine.model.tokenizer import Tokenizer
from rooftune.engine.server.stops import StopMatcher
from rooftune.engine.server.text import TextStream


def oracle(text: str, stops: list[str]) -> tuple[str, bool]:
    """Character by character: the first moment at which the text ends with a stop string."""
    for end in range(1, len(text) + 1):
        hits = [stop for stop in stops if text[:end].endswith(stop)]
        if hits:
            return text[: end - max(map(len, hits))], True
    return text, False


def feed(matcher: StopMatcher, pieces: list[str]) -> tuple[str, bool]:
    shown = ""
    for piece in pieces:
        text, matched = matcher.push(piece)
        shown += text
        if matched:
            return shown, True
    return shown + matcher.flush(), False


few_letters = st.text("ab\n", max_size=12)


@settings(max_examples=300, deadline=None)
@given(
    pieces=st.lists(few_letters, max_size=6),
    stops=st.lists(st.text("ab\n", min_size=1, max_size=5), max_size=3),
)
def test_stop_matcher_equals_the_oracle_for_every_cut(pieces: list[str], stops: list[str]) -> None:
    assert feed(StopMatcher(stops), pieces) == oracle("".join(pieces), stops)


@settings(max_examples=200, deadline=None)
@given(text=few_letters, stops=st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=3))
def test_nothing_is_held_back_that_cannot_begin_a_stop_string(text: str, stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    shown, matched = matcher.push(text)
    held = "" if matched else text[len(shown) :]
    assert not held or any(stop.startswith(held) and stop != held for stop in stops)


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> Tokenizer:
    return read_hugging_face(ModelSource("tiny", tiny_model, "hugging_face")).tokenizer


def as_bytes(text: str) -> list[int]:
    """One token a byte: the tiny vocabulary's first 256 tokens."""
    return list(text.encode())


def test_characters_of_several_bytes_are_never_split(tokenizer: Tokenizer) -> None:
    wanted = "aé→日本🙂z"
    stream = TextStream(tokenizer.stream())
    pieces = [stream.push([token]).text for token in as_bytes(wanted)]
    assert "".join(pieces) == wanted
    assert all("\ufffd" not in piece for piece in pieces)
    assert stream.finish().text == ""


def test_an_unfinished_character_is_shown_at_the_end(tokenizer: Tokenizer) -> None:
    stream = TextStream(tokenizer.stream())
    assert stream.push(as_bytes("🙂")[:2]).text == ""
    assert stream.finish().text == "\ufffd"


def logprobs(tokens: list[int]) -> list[TokenLogprob]:
    return [TokenLogprob(token, -float(token)) for token in tokens]


def test_logprobs_come_with_their_text(tokenizer: Tokenizer) -> None:
    stream = TextStream(tokenizer.stream(), ["xyz"])
    shown: list[tuple[str, list[int]]] = []
    for token in as_bytes("axyéxyzb"):
        piece = stream.push([token], logprobs([token]))
        shown.append((piece.text, [entry.logprob.token for entry in piece.logprobs]))
        if piece.stopped:
            break
    assert piece.stopped
    assert "".join(text for text, _ in shown) == "axyé"
    # Held back while "xy" could begin the stop string, then given with the text; nothing of "xyz" is reported.
    assert [token for _, tokens in shown for token in tokens] == as_bytes("axyé")
    assert shown[1] == ("", []) and shown[2] == ("", [])
    assert stream.tokens == len(as_bytes("axyéxyz"))


def test_tokens_after_a_stop_string_in_one_step_are_not_counted(tokenizer: Tokenizer) -> None:
    stream = TextStream(tokenizer.stream(), ["!"])
    piece = stream.push(as_bytes("ab!cd"))
    assert (piece.text, piece.stopped, stream.tokens) == ("ab", True, 3)


def test_the_end_token_is_counted_and_hidden(tokenizer: Tokenizer) -> None:
    stream = TextStream(tokenizer.stream(), (), {ord("c")})
    piece = stream.push(as_bytes("abc"), ended=True)
    assert (piece.text, stream.tokens) == ("ab", 3)
    # The same token in the middle, when it did not end the text, is text.
    other = TextStream(tokenizer.stream(), (), {ord("c")})
    assert other.push(as_bytes("acb")).text == "acb"


@settings(max_examples=100, deadline=None)
@given(
    text=st.text("aé🙂\n", max_size=10), stops=st.lists(st.text("aé\n", min_size=1, max_size=3), max_size=2)
)
def test_text_stream_equals_the_oracle(tokenizer: Tokenizer, text: str, stops: list[str]) -> None:
    stream = TextStream(tokenizer.stream(), stops)
    shown, stopped, reported = "", False, 0
    for token in as_bytes(text):
        piece = stream.push([token], logprobs([token]))
        shown, reported = shown + piece.text, reported + len(piece.logprobs)
        if piece.stopped:
            stopped = True
            break
    if not stopped:
        rest = stream.finish()
        shown, reported = shown + rest.text, reported + len(rest.logprobs)
        assert reported == len(as_bytes(text))
    assert (shown, stopped) == oracle(text, stops)
