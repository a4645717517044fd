"""Path equality: whatever the switches, the same requests give the same tokens. The toy model is the oracle."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_runner import VOCABULARY, ToyRunner, drain, expected_greedy, make, request, serve


def some_requests(seed: int, count: int = 9, **sampling):
    """Prompts of many lengths; some begin alike, some are the same."""
    chance = random.Random(seed)
    shared = [chance.randrange(VOCABULARY) for _ in range(13)]
    made = []
    for index in range(count):
        prompt = [chance.randrange(VOCABULARY) for _ in range(chance.choice([1, 3, 4, 5, 8, 17, 30]))]
        if index % 3:
            prompt = shared[: chance.choice([4, 8, 12, 13])] + (prompt if index % 2 else [])
        made.append(request(f"r{index}", prompt, chance.choice([1, 2, 5, 12]), **sampling))
    return made


SWITCHES = list(
    itertools.product(["static", "dynamic", "continuous"], [True, False], ["none", "hash"], [1, 3, 8])
)


@pytest.mark.parametrize(("batching", "chunked", "cache", "slots"), SWITCHES)
def test_every_combination_of_switches_gives_the_tokens_of_the_oracle(
    batching, chunked, cache, slots
) -> None:
    requests = some_requests(1)
    served = serve(requests, batching=batching, chunked_prefill=chunked, prefix_cache=cache, slots=slots)
    for each in requests:
        assert served[each.id] == expected_greedy(each.prompt, each.sampling.maximum_tokens)


@pytest.mark.parametrize("cache", ["none", "hash"])
@pytest.mark.parametrize("batching", ["static", "dynamic", "continuous"])
def test_seeded_sampling_survives_preemption_and_neighbours(batching: str, cache: str) -> None:
    requests = [
        request(f"r{i}", [i, 5, 6, 7, 8], 30, temperature=0.8, top_k=20, top_p=0.9, seed=i) for i in range(5)
    ]
    alone = {each.id: serve([each])[each.id] for each in requests}
    engine, collector = make(batching=batching, prefix_cache=cache, pool_tokens=48, slots=5)
    for each in requests:
        engine.submit(each)
    drain(engine)
    assert engine.stats().preemptions > 0, "the pool was meant to be too small"
    assert {each.id: collector.tokens(each.id) for each in requests} == alone
    assert len({tuple(tokens) for tokens in alone.values()}) == 5


def test_preemption_counts_what_is_computed_twice() -> None:
    engine, _ = make(pool_tokens=48, slots=5, prefix_cache="none")
    prompts = {f"r{i}": [i, 5, 6, 7, 8] for i in range(5)}
    for id, prompt in prompts.items():
        engine.submit(request(id, prompt, 30))
    engine.step()
    sequences = list(engine.scheduler.sequences.values())
    drain(engine)
    stats = engine.stats()
    assert stats.preemptions == sum(sequence.preemptions for sequence in sequences)
    assert sequences[0].preemptions == 0, "the first one admitted is never the victim"
    computed = (
        stats.prefill_tokens
        + stats.row_steps
        - sum(len(part.tokens) > 1 or part.context == 0 for step in engine.runner.steps for part in step)
    )
    # Each request needs its prompt and all but its last output token once.
    assert stats.preemptions > 0
    assert computed - sum(len(prompt) + 29 for prompt in prompts.values()) == stats.lost_tokens


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_random_traffic_with_aborts_on_a_tiny_pool_leaves_no_page_behind(seed: int) -> None:
    chance = random.Random(seed)
    engine, collector = make(
        batching=chance.choice(["static", "dynamic", "continuous"]),
        chunked_prefill=chance.random() < 0.7,
        prefix_cache=chance.choice(["none", "hash"]),
        slots=chance.choice([1, 2, 5]),
        pool_tokens=chance.choice([63, 77, 200]),
        page_size=chance.choice([1, 4, 7]),
        token_budget=chance.choice([5, 16]),
    )
    requests = some_requests(seed, 14)
    aborted = set()
    for each in requests:
        engine.submit(each)
        for _ in range(chance.randrange(4)):
            engine.step()
        if chance.random() < 0.4:
            victim = chance.choice(requests).id
            engine.abort(victim)
            aborted.add(victim)
    drain(engine)
    assert engine.scheduler.pool.used == 0
    for each in requests:
        wanted = expected_greedy(each.prompt, each.sampling.maximum_tokens)
        tokens = collector.tokens(each.id)
        if each.id in aborted:
            assert tokens == wanted[: len(tokens)]
        else:
            assert tokens == wanted
        assert sum(output.finish is not None for output in collector.outputs(each.id)) == 1


def test_a_page_table_with_two_pages_exchanged_is_seen_by_the_toy_model() -> None:
    """The inverse test: the oracle must fail when a slot is wrong."""

    class Broken(ToyRunner):
        def forward(self, slices):
            result = super().forward(slices)
            self.store[0], self.store[1] = self.store[1], self.store[0]
            return result

    prompt = [1, 2, 3, 4, 5, 6, 7, 8]
    assert serve([request("a", prompt, 6)], Broken())["a"] != expected_greedy(prompt, 6)


def test_a_whole_prompt_in_the_cache_still_computes_one_token() -> None:
    prompt = list(range(8))
    engine, collector = make()
    engine.submit(request("first", prompt, 3))
    drain(engine)
    engine.submit(request("second", prompt, 3))
    drain(engine)
    assert collector.tokens("first") == collector.tokens("second") == expected_greedy(prompt, 3)
    assert collector.last("second").cached_tokens == 4
    assert (engine.stats().prefix_queries, engine.stats().prefix_hits) == (16, 4)


def test_prompts_that_come_together_share_what_the_first_one_computes() -> None:
    prompt = list(range(40))
    engine, collector = make(token_budget=16)
    for index in range(4):
        engine.submit(request(f"r{index}", [*prompt, index], 4))
    drain(engine)
    stats = engine.stats()
    assert stats.prefill_tokens + stats.prefix_hits == 4 * 41
    assert stats.prefix_hits >= 2 * 40
    for index in range(4):
        assert collector.tokens(f"r{index}") == expected_greedy([*prompt, index], 4)


def test_forgetting_the_prefixes_in_the_middle_changes_no_token() -> None:
    engine, collector = make()
    for index in range(6):
        engine.submit(request(f"r{index}", [1, 2, 3, 4, 5, 6, 7, 8, index], 9))
    for _ in range(4):
        engine.step()
    engine.reset_prefix_cache()
    engine.step()
    drain(engine)
    for index in range(6):
        assert collector.tokens(f"r{index}") == expected_greedy([1, 2, 3, 4, 5, 6, 7, 8, index], 9)
    engine.reset_prefix_cache()
    engine.step()
    assert engine.stats().pages_cached == 0


@pytest.mark.parametrize(("cache", "lost"), [("none", 13), ("hash", 1)])
def test_what_a_preempted_request_finds_again_is_neither_lost_nor_a_hit_of_its_prompt(
    cache: str, lost: int
) -> None:
    engine, collector = make(prefix_cache=cache)
    prompt = list(range(10))
    engine.submit(request("a", prompt, 8))
    for _ in range(4):
        engine.step()
    [sequence] = engine.scheduler.running
    assert sequence.committed == 13, "three full pages and one token of the next"
    engine.scheduler._preempt(sequence)
    drain(engine)
    assert collector.tokens("a") == expected_greedy(prompt, 8)
    stats = engine.stats()
    assert stats.lost_tokens == lost
    assert stats.prefix_queries == (10 if cache == "hash" else 0)
    assert stats.prefix_hits == collector.last("a").cached_tokens == 0


def test_nobody_joins_in_the_step_that_preempted() -> None:
    engine, _ = make(slots=2, pool_tokens=48, prefix_cache="none")
    for id in ("a", "b"):
        engine.submit(request(id, [1] * 20, 28))
    while len(engine.scheduler.running) < 2:
        engine.step()
    engine.submit(request("urgent", [3, 4], 2, priority=-1))
    while not engine.scheduler.counters.preemptions:
        engine.step()
    assert [sequence.id for sequence in engine.scheduler.running] == ["a"]
    assert [sequence.id for sequence in engine.scheduler.waiting] == ["urgent", "b"]
    engine.step()
    assert [sequence.id for sequence in engine.scheduler.running] == ["a", "urgent"]
    drain(engine)
