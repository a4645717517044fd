"""Text to token ids and back, whole or as a stream: one face over every kind of vocabulary."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders

from rooftune.errors import WrongInput


class Tokenizer:
    """Encodes and decodes; safe to share between threads.

    bos: the begin token, None without one; adds_bos: whether the model wants it before a raw prompt;
    special: ids that never show in text; kind: words for `models show`.
    """

    def __init__(self, inner: tokenizers.Tokenizer, bos: int | None, adds_bos: bool, kind: str) -> None:
        self._inner = inner
        self.bos = bos
        self.adds_bos = adds_bos and bos is not None
        self.kind = kind
        self.vocabulary: int = inner.get_vocab_size(with_added_tokens=True)
        added = inner.get_added_tokens_decoder()
        self.special: frozenset[int] = frozenset(token for token, entry in added.items() if entry.special)
        self._byte_level = _is_byte_level(inner)

    def encode(self, text: str, add_bos: bool | None = None) -> list[int]:
        """Ids of ``text``; special tokens written in it are recognised. None for ``add_bos``: as the model wants.

        The begin token is put first at most once, also when a chat template has already written it.
        """
        ids: list[int] = self._inner.encode(text, add_special_tokens=False).ids
        wanted = self.adds_bos if add_bos is None else add_bos and self.bos is not None
        if wanted and self.bos is not None and (not ids or ids[0] != self.bos):
            return [self.bos, *ids]
        return ids

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        """Text of ``ids``; bytes that are no UTF-8 become U+FFFD."""
        return str(self._inner.decode(list(ids), skip_special_tokens=skip_special))

    def token_text(self, token: int) -> str:
        """Text of one token by itself, special ones included (for logprobs)."""
        raw = self.token_bytes(token)
        return (
            self.decode([token], skip_special=False) if raw is None else raw.decode("utf-8", errors="replace")
        )

    def token_bytes(self, token: int) -> bytes | None:
        """Exact bytes of one token in a byte-level vocabulary; None where bytes depend on the neighbours."""
        if not self._byte_level:
            return None
        text = self._inner.id_to_token(token)
        if text is None:
            return b""
        try:
            return bytes(_BYTE_OF_CHARACTER[character] for character in text)
        except KeyError:
            return str(text).encode()

    def id_of(self, token: str) -> int | None:
        """Id of a token written exactly as in the vocabulary, such as ``<|im_end|>``; None if there is none."""
        found = self._inner.token_to_id(token)
        return None if found is None else int(found)

    def stream(self, skip_special: bool = True) -> StreamDecoder:
        """A decoder for tokens that come one by one."""
        return StreamDecoder(self, skip_special)


class StreamDecoder:
    """Turns tokens that come one by one into text that never changes once given out.

    Bytes of an unfinished character are held back until it is complete or ``flush`` is called.
    The texts given out, joined, equal the decode of all tokens at once.
    """

    def __init__(self, tokenizer: Tokenizer, skip_special: bool = True) -> None:
        self._tokenizer = tokenizer
        self._skip = skip_special
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._window: list[int] = []
        self._settled = 0
        """Tokens of the window whose text was given out; the rest is read against them as context."""

    def add(self, tokens: Sequence[int]) -> str:
        """Text that became final with these tokens."""
        return "".join(
            self._add(token) for token in tokens if not (self._skip and token in self._tokenizer.special)
        )

    def _add(self, token: int) -> str:
        raw = self._tokenizer.token_bytes(token)
        if raw is not None:
            return self._utf8.decode(raw)
        self._window.append(token)
        text = self._pending()
        # Only the last few byte tokens can still grow into a character: 4 bytes is the longest in UTF-8.
        if text.endswith("\ufffd") and len(self._window) - self._settled < 4:
            return ""
        self._settle()
        return text

    def _pending(self) -> str:
        before = self._tokenizer.decode(self._window[: self._settled], skip_special=False)
        return self._tokenizer.decode(self._window, skip_special=False)[len(before) :]

    def _settle(self) -> None:
        del self._window[: self._settled]
        self._settled = len(self._window)

    def flush(self) -> str:
        """What is still held back, at the end of a text."""
        text = self._utf8.decode(b"", final=True) + self._pending()
        self._settle()
        return text


def _character_of_byte() -> dict[int, str]:
    """GPT-2's printable spelling of every byte: printable Latin-1 as itself, the others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {
        byte: chr(0x100 + index) for index, byte in enumerate(others)
    }


CHARACTER_OF_BYTE = _character_of_byte()
_BYTE_OF_CHARACTER = {character: byte for byte, character in CHARACTER_OF_BYTE.items()}


def _is_byte_level(inner: tokenizers.Tokenizer) -> bool:
    # Serialising leaves the vocabulary in; only the decoder at its known key is looked at.
    return isinstance(inner.decoder, decoders.ByteLevel)


def tokenizer_from_file(
    path: Path, settings: Mapping[str, Any], bos: int | None, vocabulary: int
) -> Tokenizer:
    """From tokenizer.json; ``settings`` is tokenizer_config.json, ``bos`` the id that config.json states."""
    where = f"{path.parent.name}/{path.name}"
    if not path.exists():
        raise WrongInput(f"{where} is missing; give a folder with a fast tokenizer (tokenizer.json)")
    try:
        inner = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for every malformed file
        raise WrongInput(
            f"{where}: not a tokenizer file ({next(iter(str(error).splitlines()), 'no reason given')})"
        ) from error
    inner.no_truncation()
    inner.no_padding()
    check_size(inner, vocabulary, where)
    named = settings.get("bos_token")
    named = named.get("content") if isinstance(named, dict) else named
    begin = inner.token_to_id(named) if isinstance(named, str) else bos
    # Some tokenizers add the begin token in their post-processor, whatever the settings say.
    processed = inner.encode("a", add_special_tokens=True).ids
    adds = settings.get("add_bos_token")
    adds_bos = begin is not None and (bool(adds) or processed[:1] == [begin])
    kind = json.loads(path.read_text(encoding="utf-8"))["model"].get("type", "unknown")
    return Tokenizer(inner, begin, adds_bos, f"{kind} from tokenizer.json")


def check_size(inner: tokenizers.Tokenizer, vocabulary: int, where: str) -> None:
    size = inner.get_vocab_size(with_added_tokens=True)
    if size > vocabulary:
        raise WrongInput(
            f"{where}: the tokenizer has {size} tokens, the model only {vocabulary}; the files do not match"
        )
