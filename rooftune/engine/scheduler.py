"""The scheduler: one step is a transaction of plan, reserve, run and commit. No tensors, no threads, no clock."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from rooftune.engine.contracts import EngineConfig, FinishReason, GenerationRequest
from rooftune.engine.counters import SchedulerCounters
from rooftune.engine.laws import check_laws
from rooftune.engine.limits import check_config, check_request
from rooftune.engine.pages import PagePool
from rooftune.engine.policies import (
    AdmissionState,
    admission_policy,
    budget_admits,
    budget_claimed,
    fits,
    pages_for,
    share_budget,
)
from rooftune.engine.prefix import make_prefix_cache
from rooftune.engine.sequence import SequenceState
from rooftune.engine.work import Idle, Row, Step, work_of


@dataclass(frozen=True, slots=True)
class Committed:
    """A sequence to which a step gave a token, and why it is finished, if it is."""

    sequence: SequenceState
    token: int
    finish: FinishReason | None


class Scheduler:
    """Requests in, steps out. The caller runs each planned step and commits or fails it before the next plan."""

    def __init__(
        self,
        config: EngineConfig,
        maximum_context: int,
        *,
        vocabulary: int | None = None,
        namespace: str = "",
        debug: bool = False,
    ) -> None:
        """namespace: prefixes are shared only within it (model, weights, KV type). debug: check all laws each step."""
        check_config(config)
        self.config = config
        self.maximum_context = maximum_context
        self.vocabulary = vocabulary
        self.namespace = namespace
        self.debug = debug
        self.pool = PagePool(config.pool_tokens // config.page_size)
        self.prefix = make_prefix_cache(config.prefix_cache, self.pool, config.page_size)
        self.policy = admission_policy(config.batching)
        self.waiting: list[SequenceState] = []
        """By priority (lower first), then preempted ones, then arrival."""
        self.running: list[SequenceState] = []
        """In order of admission; the last one is the first victim."""
        self.sequences: dict[str, SequenceState] = {}
        self.counters = SchedulerCounters()
        self._idle_rows = 0

    # Requests ------------------------------------------------------------------------------------------------

    def add(self, request: GenerationRequest, now: float) -> SequenceState:
        """Queue a request that came at ``now``; RequestRefused if it can never be served."""
        check_request(request, self.config, self.maximum_context, self.vocabulary)
        if request.id in self.sequences:
            raise ValueError(f"a request with the id {request.id!r} is already in the engine")
        sequence = SequenceState(request, now, self.prefix.root(self.namespace), list(request.prompt))
        self.sequences[request.id] = sequence
        position = bisect_right(self.waiting, request.priority, key=lambda other: other.request.priority)
        self.waiting.insert(position, sequence)
        return sequence

    def end(self, sequence: SequenceState, finish: FinishReason) -> None:
        """The request is over, in whatever state it is; its pages and its slot are given back."""
        sequence.finish = finish
        self.counters.finished[finish] += 1
        del self.sequences[sequence.id]
        # A row that was preempted out of a static batch still has its slot there.
        self._idle_rows += self.policy.holds_rows and (sequence in self.running or sequence.resumed)
        (self.running if sequence in self.running else self.waiting).remove(sequence)
        self._release(sequence)

    def abort(self, id: str) -> SequenceState | None:
        """End a request between two steps; None if there is none with this id (any more)."""
        sequence = self.sequences.get(id)
        if sequence is not None:
            self.end(sequence, "abort")
        return sequence

    # Steps ---------------------------------------------------------------------------------------------------

    def plan(self, now: float) -> Step | Idle:
        """Reserve pages, admit, and share the token budget; the step must then be committed or failed.

        Pages are reserved before the budget is shared, so a victim of preemption has no share to give back.
        Nothing is admitted in a step that preempted: the newcomer would be the next victim.
        """
        wake = None
        if not self._grow():
            self._find_late_hits()
            wake = self._admit(now)
        if not self.running:
            if self.waiting and wake is None:
                raise RuntimeError("requests wait, nothing runs, and none can be admitted")
            return Idle(wake)
        config = self.config
        shares = share_budget(self.running, config.token_budget, config.chunked_prefill)
        rows = []
        for sequence, count in zip(self.running, shares, strict=True):
            if count == 0:
                continue
            samples = count == sequence.remaining
            rows.append(Row(sequence, sequence.committed, count, samples, sequence.decoding))
            sequence.computed += count
        work = work_of(tuple(rows))
        step = Step(tuple(rows), work, len(self.waiting), len(self.running), self._idle_rows)
        if self.debug:
            check_laws(self, step)
        return step

    def commit(self, step: Step, sampled: Sequence[int], now: float) -> list[Committed]:
        """The step was run: ``sampled`` holds a token for each row that samples, in order of the rows.

        A stop token ends the sequence and is its last token. ``ignore_end`` makes all stop tokens ordinary ones.
        """
        tokens = iter(sampled)
        results = []
        self._count(step)
        for row in step.rows:
            sequence = row.sequence
            self._commit_pages(sequence, row.count)
            if not row.decode:
                sequence.prompt_steps += 1
            if not row.samples:
                continue
            if not row.decode:
                self.counters.prompts_split += sequence.prompt_steps > 1
            token = next(tokens)
            if sequence.first_token is None:
                sequence.first_token = now
                self.counters.prompt_tokens += len(sequence.request.prompt)
            sequence.tokens.append(token)
            self.counters.generation_tokens += 1
            finish = self._finish(sequence, token)
            if finish is not None:
                self.end(sequence, finish)
            results.append(Committed(sequence, token, finish))
        if next(tokens, None) is not None:
            raise ValueError("more tokens were sampled than rows of the step sample")
        if self.debug:
            check_laws(self)
        return results

    def fail(self, step: Step) -> list[SequenceState]:
        """The step could not be run: its sequences end with an error. What was committed before stays valid."""
        failed = [row.sequence for row in step.rows]
        for sequence in failed:
            self.end(sequence, "error")
        if self.debug:
            check_laws(self)
        return failed

    def reset_prefix_cache(self) -> int:
        """Forget all known prefixes; gives the number of pages forgotten. Running requests are not disturbed."""
        known = [page for page in range(self.pool.total) if self.pool.key(page) is not None]
        for page in known:
            self.pool.forget(page)
        return len(known)

    # Reserving -----------------------------------------------------------------------------------------------

    def _grow(self) -> bool:
        """Give each running sequence room for its next token, preempting from the tail; True if any was preempted."""
        preempted = False
        for sequence in list(self.running):
            needed = pages_for(len(sequence.tokens), self.config.page_size) - len(sequence.pages)
            if needed <= 0 or sequence not in self.running:
                continue
            while self.pool.available < needed:
                victim = self.running[-1]
                if victim is self.running[0]:
                    raise RuntimeError("a sequence that runs alone does not fit in the pool")
                self._preempt(victim)
                preempted = True
                if victim is sequence:
                    break
            else:
                sequence.pages.extend(self.pool.allocate(needed))
        return preempted

    def _preempt(self, sequence: SequenceState) -> None:
        """Back to the head of the queue; its tokens stay known and are computed again (what the cache lost of them)."""
        self.running.remove(sequence)
        sequence.preemptions += 1
        sequence.to_recompute = sequence.committed
        self.counters.preemptions += 1
        self._release(sequence)
        position = bisect_left(
            self.waiting, sequence.request.priority, key=lambda other: other.request.priority
        )
        self.waiting.insert(position, sequence)

    def _find_late_hits(self) -> None:
        """Prompts that are about to compute a page which another sequence has finished meanwhile take that page."""
        size = self.config.page_size
        for sequence in self.running:
            if sequence.decoding or sequence.committed % size:
                continue
            start = sequence.committed // size
            hits = self.prefix.match(
                sequence.link, sequence.tokens, start, (len(sequence.tokens) - 1) // size
            )
            if not hits:
                continue
            own = sequence.pages[start : start + len(hits)]
            for page, _ in hits:
                self.pool.touch(page)
            self.pool.release(own)
            sequence.pages[start : start + len(hits)] = [page for page, _ in hits]
            self._take_hits(sequence, len(hits) * size)
            sequence.link = hits[-1][1]

    def _admit(self, now: float) -> float | None:
        """Move requests from the queue to the running ones as the policy, the pool and the budget allow."""
        config, counters = self.config, self.counters
        decision = self.policy(
            AdmissionState(self.waiting, len(self.running), config.slots, now, config.batch_wait)
        )
        before = len(self.running)
        claimed = budget_claimed(self.running, config.chunked_prefill)
        for _ in range(decision.count):
            sequence = self.waiting[0]
            # At least one token is always computed: its logits are needed.
            full = (len(sequence.tokens) - 1) // config.page_size
            hits = self.prefix.match(sequence.link, sequence.tokens, 0, full)
            remaining = len(sequence.tokens) - len(hits) * config.page_size
            if decision.within_budget and not budget_admits(
                remaining, claimed, config.token_budget, config.chunked_prefill
            ):
                break
            fresh = pages_for(len(sequence.tokens), config.page_size) - len(hits)
            revived = sum(self.pool.references(page) == 0 for page, _ in hits)
            if not fits(fresh + revived, self.pool.available, self.pool.total, len(self.running)):
                break
            del self.waiting[0]
            for page, _ in hits:
                self.pool.touch(page)
            sequence.pages = [page for page, _ in hits] + self.pool.allocate(fresh)
            if hits:
                sequence.link = hits[-1][1]
            if sequence.admitted is None:
                sequence.admitted = now
                self.prefix.count_query(len(sequence.request.prompt))
            self._take_hits(sequence, len(hits) * config.page_size)
            counters.lost_tokens += max(0, sequence.to_recompute - sequence.committed)
            sequence.prompt_steps = 0
            counters.joins_while_running += bool(self.running)
            self.running.append(sequence)
            claimed += remaining
        admitted = len(self.running) - before
        if admitted and self.policy.holds_rows and before == 0:
            self._idle_rows = 0
        if admitted:
            counters.batch_sizes[admitted] += 1
        counters.peak_running = max(counters.peak_running, len(self.running))
        return decision.wake

    def _take_hits(self, sequence: SequenceState, tokens: int) -> None:
        sequence.committed += tokens
        sequence.computed = sequence.committed
        # What a preempted sequence finds again is not a hit of its prompt.
        if not sequence.resumed:
            sequence.cached_tokens += tokens
            self.prefix.hits += tokens

    # Committing ----------------------------------------------------------------------------------------------

    def _commit_pages(self, sequence: SequenceState, count: int) -> None:
        size = self.config.page_size
        first = sequence.committed // size
        sequence.committed += count
        for index in range(first, sequence.committed // size):
            chunk = sequence.tokens[index * size : (index + 1) * size]
            sequence.link = self.prefix.insert(sequence.link, chunk, sequence.pages[index])

    def _finish(self, sequence: SequenceState, token: int) -> FinishReason | None:
        sampling = sequence.request.sampling
        if token in sampling.stop_tokens and not sampling.ignore_end:
            return "stop"
        if sequence.output_length >= sampling.maximum_tokens:
            return "length"
        return None

    def _release(self, sequence: SequenceState) -> None:
        """The one way by which a sequence gives up its pages: finish, abort, error and preemption all come here."""
        self.pool.release(sequence.pages)
        sequence.pages = []
        sequence.computed = sequence.committed = 0
        sequence.link = self.prefix.root(self.namespace)

    def _count(self, step: Step) -> None:
        counters, work = self.counters, step.work
        counters.steps += 1
        counters.prefill_tokens += work.prefill_tokens
        counters.mixed_steps += bool(work.prefill_tokens and work.decode_rows)
        counters.budget_full_steps += work.tokens >= self.config.token_budget
        counters.idle_row_steps += step.idle_rows
        counters.row_steps += len(step.rows)
