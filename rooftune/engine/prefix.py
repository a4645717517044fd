"""Prefix cache: pages whose tokens, and all tokens before them, were computed already are used again."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rooftune.engine.pages import PagePool
from rooftune.errors import WrongInput


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """One full page of a known prefix. Compared by identity: the same link means the same tokens up to here."""

    digest: bytes
    parent: Link | None
    tokens: tuple[int, ...]


class PrefixCache(Protocol):
    """What the scheduler needs of a prefix cache. queries, hits: prompt tokens looked up, and found."""

    name: str
    queries: int
    hits: int

    def count_query(self, tokens: int) -> None:
        """A prompt of so many tokens is looked up for the first time."""
        ...

    def root(self, namespace: str) -> Link:
        """The empty prefix of a namespace; prefixes of different namespaces never meet."""
        ...

    def match(self, parent: Link, tokens: Sequence[int], start: int, end: int) -> list[tuple[int, Link]]:
        """Pages that hold the full pages ``start`` .. ``end - 1`` of ``tokens``, as far as they are known.

        ``parent`` is the link of page ``start - 1``. Nothing is taken: the caller touches what it uses.
        """
        ...

    def insert(self, parent: Link, tokens: Sequence[int], page: int) -> Link:
        """``page`` now holds these page_size tokens, computed after ``parent``; gives the link to go on from.

        If another page is known for the same prefix it stays the known one and ``page`` stays private.
        """
        ...


class NoPrefixCache:
    """The technique switched off."""

    name = "none"

    def __init__(self) -> None:
        self.queries = 0
        self.hits = 0
        self._root = Link(b"", None, ())

    def count_query(self, tokens: int) -> None:
        """Nothing is looked up in no cache."""

    def root(self, namespace: str) -> Link:
        return self._root

    def match(self, parent: Link, tokens: Sequence[int], start: int, end: int) -> list[tuple[int, Link]]:
        return []

    def insert(self, parent: Link, tokens: Sequence[int], page: int) -> Link:
        return self._root


def page_digest(parent: bytes, tokens: Sequence[int]) -> bytes:
    """128 bits of BLAKE2b over the parent's digest and this page's tokens."""
    return hashlib.blake2b(array("q", tokens).tobytes(), digest_size=16, key=parent).digest()


class HashPrefixCache:
    """Full pages by the hash of (parent, tokens); on a hit tokens and parent are compared, so a collision is a miss."""

    name = "hash"

    def __init__(
        self, pool: PagePool, page_size: int, digest: Callable[[bytes, Sequence[int]], bytes] = page_digest
    ) -> None:
        self.queries = 0
        self.hits = 0
        self._pool = pool
        self._page_size = page_size
        self._digest = digest
        self._roots: dict[str, Link] = {}
        # Only the links of pages that have a key in the pool are valid; others are left from evicted content.
        self._links: dict[int, Link] = {}

    def count_query(self, tokens: int) -> None:
        self.queries += tokens

    def root(self, namespace: str) -> Link:
        if namespace not in self._roots:
            seed = hashlib.blake2b(namespace.encode(), digest_size=16).digest()
            self._roots[namespace] = Link(seed, None, ())
        return self._roots[namespace]

    def match(self, parent: Link, tokens: Sequence[int], start: int, end: int) -> list[tuple[int, Link]]:
        found: list[tuple[int, Link]] = []
        size = self._page_size
        for index in range(start, end):
            chunk = tuple(tokens[index * size : (index + 1) * size])
            page = self._pool.find(self._digest(parent.digest, chunk))
            if page is None or not self._same(page, parent, chunk):
                break
            parent = self._links[page]
            found.append((page, parent))
        return found

    def insert(self, parent: Link, tokens: Sequence[int], page: int) -> Link:
        chunk = tuple(tokens)
        digest = self._digest(parent.digest, chunk)
        known = self._pool.find(digest)
        if known is not None:
            if self._same(known, parent, chunk):
                return self._links[known]
            # A collision, or a page whose parent was evicted: it can no longer be reached from the root.
            self._pool.forget(known)
        link = Link(digest, parent, chunk)
        self._pool.register(page, digest)
        self._links[page] = link
        return link

    def _same(self, page: int, parent: Link, tokens: tuple[int, ...]) -> bool:
        link = self._links[page]
        return link.parent is parent and link.tokens == tokens


def make_prefix_cache(name: str, pool: PagePool, page_size: int) -> PrefixCache:
    """The prefix cache called ``name`` over this pool; WrongInput names the known ones."""
    if name == "none":
        return NoPrefixCache()
    if name == "hash":
        return HashPrefixCache(pool, page_size)
    raise WrongInput(f"prefix_cache is {name!r}; it must be one of hash, none")
