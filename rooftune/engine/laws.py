"""The laws that hold between pool and sequences before and after every step; checked in tests and debug mode."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rooftune.engine.policies import pages_for

if TYPE_CHECKING:
    from rooftune.engine.scheduler import Scheduler
    from rooftune.engine.work import Step


def check_laws(scheduler: Scheduler, step: Step | None = None) -> None:
    """Raise AssertionError if a law is broken; ``step`` is one that is about to run."""
    scheduler.pool.check()
    size = scheduler.config.page_size
    owners: Counter[int] = Counter()
    for sequence in scheduler.running:
        owners.update(sequence.pages)
        assert len(set(sequence.pages)) == len(sequence.pages), "a sequence holds a page twice"
        assert sequence.committed <= sequence.computed <= len(sequence.tokens), (
            "the counts of a sequence disagree"
        )
        room = len(sequence.pages) * size
        assert room >= sequence.computed, "more was computed than there is room for"
        assert step is None or 0 <= room - len(sequence.tokens) < size, "pages and tokens do not match"
        assert step is not None or sequence.committed == sequence.computed, (
            "a step was neither committed nor failed"
        )
    for page in range(scheduler.pool.total):
        assert owners[page] == scheduler.pool.references(page), f"owners and references of page {page} differ"
    for sequence in scheduler.waiting:
        assert not sequence.pages and not sequence.computed, "a waiting sequence holds pages"
    present = {*scheduler.running, *scheduler.waiting}
    assert present == set(scheduler.sequences.values()), "a sequence is lost"
    for row in step.rows if step is not None else ():
        for index in range(row.context // size, pages_for(row.context + row.count, size)):
            assert scheduler.pool.writable(row.sequence.pages[index]), "a shared page would be written"
