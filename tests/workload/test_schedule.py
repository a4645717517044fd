"""A schedule is decided by its arguments alone, saved whole, and refused when it was changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rooftune.errors import WrongInput
from rooftune.spec import Workload
from rooftune.workload.prompts.builtin_chat import SYSTEM, TEMPLATES, chat_prompts
from rooftune.workload.prompts.contract import Message
from rooftune.workload.schedule import build_schedule, load_schedule, save_schedule, warmup_schedule


def workload(source: str = "builtin:chat", **prompts: int) -> Workload:
    return Workload.model_validate(
        {"arrivals": {"process": "poisson", "rate": "4/s"}, "prompts": {"source": source, **prompts}}
    )


def test_the_same_arguments_give_the_same_schedule_and_any_other_another() -> None:
    first = build_schedule(workload(), requests=30, rate=None, seed=1)
    assert build_schedule(workload(), requests=30, rate=None, seed=1) == first
    others = [
        build_schedule(workload(), requests=30, rate=None, seed=2),
        build_schedule(workload(), requests=30, rate=None, seed=1, salt="b"),
        build_schedule(workload(), requests=30, rate=5.0, seed=1),
        build_schedule(workload(output_tokens=9), requests=30, rate=None, seed=1),
    ]
    assert len({first.hash, *(o.hash for o in others)}) == 5


def test_the_hash_does_not_depend_on_the_machine() -> None:
    """Fixed by this test: a change means that saved schedules of users no longer load."""
    assert build_schedule(workload(), requests=3, rate=None, seed=1).hash.startswith(PINNED)


PINNED = "6ef8557b8726b444"


def test_rounds_with_other_seeds_share_no_prompt_but_the_system_prompt() -> None:
    texts = [
        entry.text()
        for seed in range(6)
        for entry in build_schedule(workload(), requests=60, rate=None, seed=seed).entries
    ]
    assert len(set(texts)) == len(texts) == 360
    assert all(SYSTEM in text for text in texts)


def test_chat_prompts_have_the_lengths_that_they_promise() -> None:
    assert len(TEMPLATES) >= 40
    assert 55 <= len(SYSTEM.split()) <= 90
    words = [len(str((p.messages or ({}, {}))[1]["content"]).split()) for p in chat_prompts(300, "x")]
    assert min(words) >= 10 and max(words) <= 50


def test_thousands_of_chat_prompts_stay_different() -> None:
    prompts = [str(p.messages) for p in chat_prompts(5000, "many")]
    assert len(set(prompts)) == 5000


def test_fixed_output_only_where_the_workload_fixes_it() -> None:
    natural = build_schedule(workload(), requests=2, rate=None, seed=1)
    fixed = build_schedule(workload(output_tokens=17), requests=2, rate=None, seed=1)
    assert not natural.entries[0].fixed_output
    assert fixed.entries[0].fixed_output and fixed.entries[0].max_tokens == 17


def test_shared_prefix_share_against_a_slow_reference() -> None:
    schedule = build_schedule(workload(), requests=25, rate=None, seed=4)
    texts = [entry.text() for entry in schedule.entries]

    def common(a: str, b: str) -> int:
        return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))

    best = sum(max(common(a, b) for j, b in enumerate(texts) if j != i) for i, a in enumerate(texts))
    assert schedule.shared_prefix_share() == pytest.approx(best / sum(map(len, texts)))


def test_warm_up_uses_no_prompt_of_the_run() -> None:
    for source, more in (("builtin:chat", {}), ("builtin:longdoc", {}), ("synthetic", {"input_tokens": 60})):
        schedule = build_schedule(workload(source, **more), requests=20, rate=None, seed=1)
        warm = warmup_schedule(schedule, 5)
        assert not {e.text() for e in warm.entries} & {e.text() for e in schedule.entries}


def test_save_and_load(tmp_path: Path) -> None:
    schedule = build_schedule(workload(output_tokens=5), requests=10, rate=None, seed=3)
    place = save_schedule(schedule, tmp_path / "s.json")
    assert load_schedule(place) == schedule
    changed = json.loads(place.read_text())
    changed["entries"][0]["max_tokens"] = 6
    place.write_text(json.dumps(changed))
    with pytest.raises(WrongInput, match="hash"):
        load_schedule(place)
    place.write_text("{}")
    with pytest.raises(WrongInput, match="not a saved schedule"):
        load_schedule(place)
    place.write_bytes(b"\xff\x00")
    with pytest.raises(WrongInput, match="damaged"):
        load_schedule(place)


def odd_tokenizer(messages: list[Message]) -> int:
    """Some words are two tokens; the template takes 11."""
    return 11 + sum(2 if len(word) > 6 else 1 for m in messages for word in str(m["content"]).split())


@pytest.mark.parametrize("tokens", [12, 40, 333])
def test_synthetic_lengths_are_exact_under_the_servers_tokenizer(tokens: int) -> None:
    schedule = build_schedule(
        workload("synthetic", input_tokens=tokens), requests=20, rate=None, seed=1, count_tokens=odd_tokenizer
    )
    assert schedule.exact_lengths is True
    assert [odd_tokenizer(list(e.messages or ())) for e in schedule.entries] == [tokens] * 20
    assert all(e.input_tokens == tokens for e in schedule.entries)


def test_a_length_that_cannot_be_reached_is_labelled() -> None:
    short = build_schedule(
        workload("synthetic", input_tokens=5), requests=2, rate=None, seed=1, count_tokens=odd_tokenizer
    )
    assert short.exact_lengths is False
    assert (
        build_schedule(workload("synthetic", input_tokens=50), requests=2, rate=None, seed=1).exact_lengths
        is False
    )


def test_jsonl_requests_are_sampled_and_repeats_are_told(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    lines = [
        {"messages": [{"role": "user", "content": f"q{i}"}], "max_tokens": 5, "top_p": 0.5} for i in range(50)
    ]
    lines[7] = {"body": {"model": "x", "prompt": "plain", "max_tokens": 3}}
    file.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    some = build_schedule(workload(f"jsonl:{file}"), requests=10, rate=None, seed=1)
    assert some.repeated_prompts == 0
    assert some.entries[0].body["top_p"] == 0.5 and "max_tokens" not in some.entries[0].body
    other = build_schedule(workload(f"jsonl:{file}"), requests=10, rate=None, seed=2)
    assert [e.text() for e in some.entries] != [e.text() for e in other.entries]
    assert build_schedule(workload(f"jsonl:{file}"), requests=80, rate=None, seed=1).repeated_prompts == 30


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("", "no request"),
        ("{", "line 1: not JSON"),
        ('{"a": 1}', "neither"),
        ("[1]", "not a request"),
        ('{"prompt": "x", "max_tokens": 0}', "max_tokens"),
    ],
)
def test_bad_request_files_are_refused_in_one_line(tmp_path: Path, content: str, match: str) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text(content)
    with pytest.raises(WrongInput, match=match):
        build_schedule(workload(f"jsonl:{file}"), requests=1, rate=None, seed=1)


def test_sharegpt(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    turns = [{"from": "human", "value": "hello there"}, {"from": "gpt", "value": "x" * 400}]
    file.write_text(
        json.dumps([{"conversations": turns}, {"conversations": []}, {"conversations": turns[1:]}])
    )
    schedule = build_schedule(workload(f"sharegpt:{file}"), requests=1, rate=None, seed=1)
    assert schedule.entries[0].messages == ({"role": "user", "content": "hello there"},)
    assert schedule.entries[0].max_tokens == 100
    file.write_text("[]")
    with pytest.raises(WrongInput, match="no ShareGPT"):
        build_schedule(workload(f"sharegpt:{file}"), requests=1, rate=None, seed=1)
    file.write_text('[{"conversations"')
    with pytest.raises(WrongInput, match="not JSON"):
        build_schedule(workload(f"sharegpt:{file}"), requests=1, rate=None, seed=1)


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("builtin:chta", "did you mean 'builtin:chat'"),
        ("synthetic", "input_tokens"),
        ("jsonl:", "names no file"),
        ("jsonl:/nowhere/x", "no such file"),
        ("sharegpt:/nowhere/x", "no such file"),
    ],
)
def test_bad_sources_say_what_to_change(source: str, match: str) -> None:
    with pytest.raises(WrongInput, match=match):
        build_schedule(workload(source), requests=1, rate=None, seed=1)


def test_an_unsettled_rate_is_refused() -> None:
    auto = Workload.model_validate({"arrivals": {"process": "poisson", "rate": "auto"}})
    with pytest.raises(WrongInput, match="settled"):
        build_schedule(auto, requests=5, rate=None, seed=1)
