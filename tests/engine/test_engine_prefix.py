"""The prefix cache: what is found is what was put in, even when every hash collides."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooftune.engine.pages import PagePool
from rooftune.engine.prefix import HashPrefixCache, make_prefix_cache, page_digest
from rooftune.errors import WrongInput

PAGE = 2


def colliding(parent: bytes, tokens: Sequence[int]) -> bytes:
    return b"the same for all"


def nearly_colliding(parent: bytes, tokens: Sequence[int]) -> bytes:
    return bytes([(sum(parent) + sum(tokens)) % 5])


def put(
    cache: HashPrefixCache, pool: PagePool, tokens: Sequence[int], content: dict[int, tuple[int, ...]]
) -> None:
    """A sequence that computes all its full pages itself and ends."""
    link = cache.root("")
    pages = pool.allocate(len(tokens) // PAGE)
    for index, page in enumerate(pages):
        content[page] = tuple(tokens[: (index + 1) * PAGE])
        link = cache.insert(link, tokens[index * PAGE : (index + 1) * PAGE], page)
    pool.check()
    pool.release(pages)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([page_digest, colliding, nearly_colliding]),
    st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=9), min_size=1, max_size=12),
)
def test_a_hit_always_holds_exactly_the_prefix(digest, sequences: list[list[int]]) -> None:
    pool = PagePool(6)
    cache = HashPrefixCache(pool, PAGE, digest)
    content: dict[int, tuple[int, ...]] = {}
    for tokens in sequences:
        if len(tokens) // PAGE > pool.available:
            continue
        for index, (page, _) in enumerate(cache.match(cache.root(""), tokens, 0, len(tokens) // PAGE)):
            assert content[page] == tuple(tokens[: (index + 1) * PAGE])
        put(cache, pool, tokens, content)


def test_a_known_prefix_is_found_up_to_the_first_difference() -> None:
    pool = PagePool(8)
    cache = HashPrefixCache(pool, PAGE)
    content: dict[int, tuple[int, ...]] = {}
    put(cache, pool, [1, 2, 3, 4, 5, 6], content)
    hits = cache.match(cache.root(""), [1, 2, 3, 4, 9, 9], 0, 3)
    assert [content[page] for page, _ in hits] == [(1, 2), (1, 2, 3, 4)]
    assert cache.match(cache.root("another"), [1, 2, 3, 4], 0, 2) == []


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(WrongInput, match="hash, none"):
        make_prefix_cache("radish", PagePool(1), 4)
