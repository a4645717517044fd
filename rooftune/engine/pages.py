"""The pool of KV pages: who holds which, which are free, and which free ones still hold a known prefix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class PoolExhausted(Exception):
    """More pages were asked for than are free; nothing was changed."""


class PagePool:
    """Pages 0 .. total-1 with reference counts, an intrusive doubly linked free list and a key -> page map.

    A page is *used* (references > 0), *free* (none, no key) or *cached* (none, but its key still finds it).
    Free and cached pages together are the free list, taken from its head. Pages without a key go to the head
    (reused while warm in the processor's cache), pages with a key to the tail, so the one released longest ago
    is evicted first. Conservation law: used + free + cached = total.
    A page may be written only by its one owner and only while it has no key (``writable``).
    """

    def __init__(self, total: int) -> None:
        """total: number of pages, at least 1."""
        if total < 1:
            raise ValueError(f"a pool needs at least one page, not {total}")
        self.total = total
        self.evictions = 0
        self.cached = 0
        self.used = 0
        self._references = [0] * total
        self._keys: list[bytes | None] = [None] * total
        self._pages: dict[bytes, int] = {}
        # Two sentinels close the list, so that linking and unlinking have no special cases.
        self._head, self._tail = total, total + 1
        self._next = [*range(1, total), self._tail, 0, -1]
        self._previous = [self._head, *range(total - 1), -1, total - 1]

    @property
    def free(self) -> int:
        """Pages that hold nothing of use."""
        return self.total - self.used - self.cached

    @property
    def available(self) -> int:
        """Pages that ``allocate`` can hand out: free and cached."""
        return self.total - self.used

    def references(self, page: int) -> int:
        return self._references[page]

    def key(self, page: int) -> bytes | None:
        return self._keys[page]

    def writable(self, page: int) -> bool:
        """True if exactly one sequence holds the page and nobody can find it by key."""
        return self._references[page] == 1 and self._keys[page] is None

    def allocate(self, count: int) -> list[int]:
        """Take ``count`` pages from the head of the free list, evicting what they cached; each has one reference."""
        if count > self.available:
            raise PoolExhausted(f"{count} pages were asked for, {self.available} are free")
        pages = []
        for _ in range(count):
            page = self._next[self._head]
            self._unlink(page)
            if self._keys[page] is not None:
                self.cached -= 1
                self.evictions += 1
                self._drop_key(page)
            self._references[page] = 1
            self.used += 1
            pages.append(page)
        return pages

    def touch(self, page: int) -> None:
        """One more owner of a page that was found by key; a cached page leaves the free list."""
        if self._references[page] == 0:
            if self._keys[page] is None:
                raise ValueError(f"page {page} is free and holds nothing; allocate it instead")
            self._unlink(page)
            self.cached -= 1
            self.used += 1
        self._references[page] += 1

    def release(self, pages: Sequence[int]) -> None:
        """One owner gives up its pages (in the order of its page table). The only way back into the free list.

        They are released from the last to the first, so that the tail of a sequence is evicted before its head.
        """
        for page in reversed(pages):
            if self._references[page] < 1:
                raise ValueError(f"page {page} was released more often than it was taken")
            self._references[page] -= 1
            if self._references[page] == 0:
                self.used -= 1
                if self._keys[page] is None:
                    self._link_after(self._head, page)
                else:
                    self.cached += 1
                    self._link_after(self._previous[self._tail], page)

    def find(self, key: bytes) -> int | None:
        """The page registered under ``key``, or None; does not take it."""
        return self._pages.get(key)

    def register(self, page: int, key: bytes) -> None:
        """From now on ``key`` finds this page. The page must be in use, without a key, and the key unknown."""
        if self._references[page] < 1 or self._keys[page] is not None or key in self._pages:
            raise ValueError(
                f"page {page} cannot be registered: it is not in use, or it or its key already is"
            )
        self._keys[page] = key
        self._pages[key] = page

    def forget(self, page: int) -> None:
        """The key of this page finds it no longer; a cached page becomes a free one."""
        if self._keys[page] is None:
            return
        self._drop_key(page)
        if self._references[page] == 0:
            self.cached -= 1
            self._unlink(page)
            self._link_after(self._head, page)

    def check(self) -> None:
        """Raise AssertionError if a law of the pool is broken."""
        listed = list(self._walk())
        assert len(set(listed)) == len(listed), "a page is in the free list twice"
        assert all(count >= 0 for count in self._references), "a reference count is negative"
        idle = {page for page, count in enumerate(self._references) if count == 0}
        assert set(listed) == idle, "the free list and the pages without owner differ"
        assert self.used == self.total - len(idle), "the count of used pages is wrong"
        cached = sum(self._keys[page] is not None for page in idle)
        assert self.cached == cached, "the count of cached pages is wrong"
        assert self.used + self.free + self.cached == self.total, "pages were lost or made"
        keyed = {page: key for page, key in enumerate(self._keys) if key is not None}
        assert {key: page for page, key in keyed.items()} == self._pages, "keys and pages do not match"
        seen_cached = False
        for page in listed:
            seen_cached = seen_cached or self._keys[page] is not None
            assert not seen_cached or self._keys[page] is not None, "a free page lies behind a cached one"

    def _walk(self) -> Iterator[int]:
        previous, page = self._head, self._next[self._head]
        for _ in range(self.total + 1):
            assert self._previous[page] == previous, "the links of the free list disagree"
            if page == self._tail:
                return
            yield page
            previous, page = page, self._next[page]
        raise AssertionError("the free list is a circle")

    def _unlink(self, page: int) -> None:
        before, after = self._previous[page], self._next[page]
        self._next[before], self._previous[after] = after, before

    def _link_after(self, before: int, page: int) -> None:
        after = self._next[before]
        self._next[before], self._previous[page] = page, before
        self._next[page], self._previous[after] = after, page

    def _drop_key(self, page: int) -> None:
        key = self._keys[page]
        assert key is not None
        del self._pages[key]
        self._keys[page] = None
