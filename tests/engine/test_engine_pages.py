"""The page pool against a trivial reference."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooftune.engine.pages import PagePool, PoolExhausted


class ReferencePool:
    """Obvious and slow: a list in order of eviction, a dict of counts, a dict of keys."""

    def __init__(self, total: int) -> None:
        self.order = list(range(total))
        self.counts = dict.fromkeys(range(total), 0)
        self.keys: dict[int, bytes] = {}

    def allocate(self, count: int) -> list[int]:
        taken, self.order = self.order[:count], self.order[count:]
        for page in taken:
            self.keys.pop(page, None)
            self.counts[page] = 1
        return taken

    def release(self, pages: list[int]) -> None:
        for page in reversed(pages):
            self.counts[page] -= 1
            if self.counts[page] == 0:
                if page in self.keys:
                    self.order.append(page)
                else:
                    self.order.insert(0, page)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 12), st.data())
def test_pool_does_what_the_reference_does(total: int, data: st.DataObject) -> None:
    pool, reference = PagePool(total), ReferencePool(total)
    owned: list[list[int]] = []
    fresh = 0
    for _ in range(data.draw(st.integers(10, 40))):
        action = data.draw(st.sampled_from(["allocate", "release", "register", "touch", "forget"]))
        if action == "allocate":
            count = data.draw(st.integers(0, total))
            if count > len(reference.order):
                with pytest.raises(PoolExhausted):
                    pool.allocate(count)
            else:
                pages = pool.allocate(count)
                assert pages == reference.allocate(count)
                owned.append(pages)
        elif action == "release" and owned:
            pages = owned.pop(data.draw(st.integers(0, len(owned) - 1)))
            pool.release(pages)
            reference.release(pages)
        elif action == "register":
            candidates = [
                page for page, count in reference.counts.items() if count and page not in reference.keys
            ]
            if candidates:
                page = data.draw(st.sampled_from(candidates))
                fresh += 1
                reference.keys[page] = fresh.to_bytes(4, "little")
                pool.register(page, reference.keys[page])
        elif action == "touch" and reference.keys:
            page = data.draw(st.sampled_from(sorted(reference.keys)))
            assert pool.find(reference.keys[page]) == page
            pool.touch(page)
            if reference.counts[page] == 0:
                reference.order.remove(page)
            reference.counts[page] += 1
            owned.append([page])
        elif action == "forget" and reference.keys:
            page = data.draw(st.sampled_from(sorted(reference.keys)))
            pool.forget(page)
            del reference.keys[page]
            if reference.counts[page] == 0:
                reference.order.remove(page)
                reference.order.insert(0, page)
        pool.check()
        assert [pool.references(page) for page in range(total)] == list(reference.counts.values())
        assert pool.available == len(reference.order)
        assert pool.cached == sum(page in reference.keys for page in reference.order)
        for page in range(total):
            assert pool.key(page) == reference.keys.get(page)
            assert pool.writable(page) == (reference.counts[page] == 1 and page not in reference.keys)


def test_the_tail_of_a_sequence_is_evicted_before_its_head_and_the_oldest_sequence_first() -> None:
    pool = PagePool(4)
    first, second = pool.allocate(2), pool.allocate(2)
    for page in (*first, *second):
        pool.register(page, bytes([page]))
    pool.release(first)
    pool.release(second)
    assert pool.allocate(4) == [first[1], first[0], second[1], second[0]]
    assert pool.evictions == 4
    assert all(pool.find(bytes([page])) is None for page in range(4))


def test_misuse_is_refused() -> None:
    pool = PagePool(2)
    [page] = pool.allocate(1)
    pool.release([page])
    with pytest.raises(ValueError, match="more often"):
        pool.release([page])
    with pytest.raises(ValueError, match="holds nothing"):
        pool.touch(page)
    with pytest.raises(ValueError, match="cannot be registered"):
        pool.register(page, b"x")


def test_check_sees_a_broken_law() -> None:
    pool = PagePool(3)
    pool.allocate(1)
    pool._references[2] = 1
    with pytest.raises(AssertionError, match="free list"):
        pool.check()
