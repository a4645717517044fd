"""The official client against the real server, streaming and not, on both endpoints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.server.hosting import Hosted

MESSAGES: list[Any] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "the answer and an"},
]
GREEDY = {"temperature": 0.0, "max_tokens": 24}


def chat(hosted: Hosted, **more: Any) -> Any:
    return hosted.client().chat.completions.create(
        model=hosted.model, messages=MESSAGES, **{**GREEDY, **more}
    )


def complete(hosted: Hosted, **more: Any) -> Any:
    asked = {"prompt": "the answer and an", **GREEDY, **more}
    return hosted.client().completions.create(model=hosted.model, **asked)


def test_models(hosted: Hosted) -> None:
    names = [entry.id for entry in hosted.client().models.list()]
    assert names == [hosted.model]
    assert hosted.client().models.retrieve(hosted.model).id == hosted.model


def test_chat_stream_says_the_same_as_the_whole_answer(hosted: Hosted) -> None:
    whole = chat(hosted)
    chunks = list(chat(hosted, stream=True, stream_options={"include_usage": True}))
    assert whole.choices[0].message.role == "assistant"
    assert whole.choices[0].finish_reason in ("length", "stop")
    first, *_, usage = chunks
    assert first.choices[0].delta.role == "assistant"
    assert all(chunk.choices[0].delta.role is None for chunk in chunks[1:-1])
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-2]] == [None] * (len(chunks) - 2)
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1])
    assert text == whole.choices[0].message.content
    assert usage.choices == [] and usage.usage is not None
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert usage.usage.completion_tokens == whole.usage.completion_tokens <= 24
    assert usage.usage.prompt_tokens == whole.usage.prompt_tokens
    assert len({chunk.id for chunk in chunks}) == 1


def test_completion_stream_says_the_same_as_the_whole_answer(hosted: Hosted) -> None:
    whole = complete(hosted)
    chunks = list(complete(hosted, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason
    assert all(chunk.choices[0].finish_reason is None for chunk in chunks[:-1])
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens


def test_without_include_usage_there_is_no_usage_chunk(hosted: Hosted) -> None:
    events = hosted.events("/v1/completions", {"prompt": "an", "max_tokens": 3, "stream_options": {}})
    assert events[-1] == "[DONE]"
    assert all("usage" not in event and event["choices"] for event in events[:-1])


def test_usage_in_every_chunk_counts_up(hosted: Hosted) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"prompt": "an", "max_tokens": 6, "ignore_eos": True, "stream_options": options}
    *chunks, last, done = hosted.events("/v1/completions", body)
    counts = [event["usage"]["completion_tokens"] for event in chunks]
    assert (
        done == "[DONE]"
        and counts == sorted(counts)
        and counts[-1] == 6 == last["usage"]["completion_tokens"]
    )


def test_timings_of_the_engine_come_with_the_usage(hosted: Hosted) -> None:
    body = {"prompt": "an", "max_tokens": 4, "ignore_eos": True, "stream_options": {"include_usage": True}}
    timings = hosted.events("/v1/completions", body)[-2]["rooftune"]
    assert set(timings) >= {"queue", "prefill", "decode"}
    assert all(isinstance(value, float) and value >= 0 for value in timings.values())


def test_cached_tokens_are_told(hosted: Hosted) -> None:
    prompt = "a prompt of its own that fills some pages of sixteen tokens each, told twice"
    first, second = (complete(hosted, prompt=prompt).usage for _ in range(2))
    assert first.prompt_tokens_details.cached_tokens == 0
    assert second.prompt_tokens_details.cached_tokens >= 16
    assert second.prompt_tokens_details.cached_tokens % 16 == 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("ask", [chat, complete])
def test_a_stop_string_across_tokens_ends_the_text_before_it(hosted: Hosted, ask: Any, stream: bool) -> None:
    def text_of(answer: Any) -> tuple[str, str]:
        chunks = list(answer) if stream else [answer]
        text = ""
        for chunk in chunks:
            choice = chunk.choices[0]
            part = (
                choice.text if ask is complete else choice.delta.content if stream else choice.message.content
            )
            text += part or ""
        return text, chunks[-1].choices[0].finish_reason

    full, _ = text_of(ask(hosted, stream=stream, max_tokens=48, extra_body={"ignore_eos": True}))
    at = len(full) // 2
    stop = full[at : at + 3]
    assert len(stop) == 3
    more = {"stop": [stop, "never there"], "max_tokens": 48, "extra_body": {"ignore_eos": True}}
    text, finish = text_of(ask(hosted, stream=stream, **more))
    assert text == full[: full.index(stop)]
    assert finish == "stop"


def test_n_choices_differ_and_a_seed_repeats_them(hosted: Hosted) -> None:
    def texts(**more: Any) -> list[str]:
        answer = chat(hosted, temperature=1.0, max_tokens=12, extra_body={"ignore_eos": True}, **more)
        return [choice.message.content for choice in sorted(answer.choices, key=lambda choice: choice.index)]

    first, again, other = texts(n=3, seed=7), texts(n=3, seed=7), texts(n=3, seed=8)
    assert len(set(first)) == 3
    assert first == again != other
    assert texts(seed=7) == first[:1]
    assert texts() != texts()


def test_n_choices_stream_under_their_own_index(hosted: Hosted) -> None:
    asked = {"temperature": 1.0, "max_tokens": 8, "seed": 3, "n": 2, "extra_body": {"ignore_eos": True}}
    whole = chat(hosted, **asked)
    texts, roles = ["", ""], [0, 0]
    for chunk in chat(hosted, stream=True, **asked):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            roles[choice.index] += choice.delta.role is not None
    assert texts == [choice.message.content for choice in whole.choices]
    assert roles == [1, 1]
    assert whole.usage.completion_tokens == 16


def test_several_prompts_and_token_ids(hosted: Hosted) -> None:
    texts = ["the answer", "an other one"]
    both = complete(hosted, prompt=texts)
    single = [complete(hosted, prompt=text).choices[0].text for text in texts]
    assert [choice.text for choice in both.choices] == single
    ids = [hosted.json("POST", "/tokenize", {"prompt": text})["tokens"] for text in texts]
    assert [choice.text for choice in complete(hosted, prompt=ids).choices] == single
    assert complete(hosted, prompt=ids[0]).choices[0].text == single[0]


def test_chat_logprobs(hosted: Hosted) -> None:
    answer = chat(hosted, logprobs=True, top_logprobs=3, max_tokens=6, extra_body={"ignore_eos": True})
    entries = answer.choices[0].logprobs.content
    assert len(entries) == 6
    for entry in entries:
        values = [alternative.logprob for alternative in entry.top_logprobs]
        assert len(values) == 3 and values == sorted(values, reverse=True)
        # Greedy: the chosen token is the likeliest.
        assert entry.logprob == values[0] <= 0
    raw = b"".join(bytes(entry.bytes) for entry in entries)
    assert raw.decode(errors="replace") == answer.choices[0].message.content
    streamed = [
        entry
        for chunk in chat(
            hosted, logprobs=True, top_logprobs=3, max_tokens=6, stream=True, extra_body={"ignore_eos": True}
        )
        for entry in chunk.choices[0].logprobs.content
    ]
    assert [entry.logprob for entry in streamed] == pytest.approx(
        [entry.logprob for entry in entries], abs=1e-4
    )


def test_completion_logprobs(hosted: Hosted) -> None:
    answer = complete(
        hosted, logprobs=2, max_tokens=6, temperature=1.0, seed=5, extra_body={"ignore_eos": True}
    )
    columns = answer.choices[0].logprobs
    assert len(columns.tokens) == len(columns.token_logprobs) == len(columns.top_logprobs) == 6
    assert columns.text_offset == sorted(columns.text_offset) and columns.text_offset[0] == 0
    for token, value, top in zip(columns.tokens, columns.token_logprobs, columns.top_logprobs, strict=True):
        assert token in top and value <= 0 and 1 <= len(top) <= 3
    chosen_only = complete(hosted, logprobs=0, max_tokens=2).choices[0].logprobs
    assert chosen_only.top_logprobs is None and len(chosen_only.tokens) == 2
    assert complete(hosted, max_tokens=2).choices[0].logprobs is None


def test_top_k_of_one_is_greedy_whatever_the_temperature(hosted: Hosted) -> None:
    greedy = complete(hosted).choices[0].text
    assert complete(hosted, temperature=2.0, extra_body={"top_k": 1}).choices[0].text == greedy
    assert complete(hosted, temperature=2.0, top_p=1e-6).choices[0].text == greedy


def test_stop_token_ids_end_the_text(hosted: Hosted) -> None:
    whole = hosted.json("POST", "/v1/completions", {"prompt": "the answer", "temperature": 0, "max_tokens": 8,
                                                    "ignore_eos": True, "logprobs": 0})  # fmt: skip
    fourth = whole["choices"][0]["logprobs"]["tokens"][3]
    token = hosted.json("POST", "/tokenize", {"prompt": fourth})["tokens"]
    if len(token) != 1 or "\ufffd" in fourth:
        pytest.skip("the fourth token of this model has no text of its own")
    stopped = hosted.json("POST", "/v1/completions", {"prompt": "the answer", "temperature": 0, "max_tokens": 8,
                                                      "ignore_eos": True, "stop_token_ids": token})  # fmt: skip
    assert stopped["choices"][0]["finish_reason"] == "stop"
    assert stopped["usage"]["completion_tokens"] <= 4


def test_max_completion_tokens_is_max_tokens(hosted: Hosted) -> None:
    answer = hosted.client().chat.completions.create(
        model=hosted.model,
        messages=MESSAGES,
        max_completion_tokens=5,
        temperature=0,
        extra_body={"ignore_eos": True},
    )
    assert answer.usage.completion_tokens == 5 and answer.choices[0].finish_reason == "length"


def test_text_parts_and_the_developer_role(hosted: Hosted) -> None:
    plain = chat(hosted).usage.prompt_tokens
    parts: list[Any] = [
        {"role": "developer", "content": "be brief"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "the answer "}, {"type": "text", "text": "and an"}],
        },
    ]
    answer = hosted.client().chat.completions.create(model=hosted.model, messages=parts, **GREEDY)  # type: ignore[call-overload]
    assert answer.usage.prompt_tokens == plain


def test_tokenize_and_back(hosted: Hosted) -> None:
    text = "the answer é 🙂"
    told = hosted.json("POST", "/tokenize", {"prompt": text, "return_token_strs": True})
    assert told["count"] == len(told["tokens"]) == len(told["token_strs"])
    assert hosted.json("POST", "/detokenize", {"tokens": told["tokens"]})["prompt"] == text
    assert told["max_model_len"] == 512
    as_chat = hosted.json("POST", "/tokenize", {"messages": MESSAGES})
    assert as_chat["count"] == chat(hosted).usage.prompt_tokens


def test_what_the_server_tells_of_itself(hosted: Hosted) -> None:
    complete(hosted)
    assert hosted.json("GET", "/health")["status"] == "ok"
    assert hosted.json("GET", "/version")["version"]
    config = hosted.json("GET", "/rooftune/config")
    assert (
        config["slots"] == hosted.engine.config.slots and config["model"]["parameters"] > 0 and config["pid"]
    )
    stats = hosted.json("GET", "/rooftune/stats")
    assert stats["counters"]["generated_tokens"] > 0 and 0 <= stats["gauges"]["kv_used"] <= 1
    steps = hosted.json("GET", "/rooftune/steps?since_ns=0")["steps"]
    assert {
        "begin_ns",
        "seconds",
        "prefill_tokens",
        "decode_rows",
        "context_tokens",
        "waiting",
        "running",
    } <= set(steps[0])
    later = hosted.json("GET", f"/rooftune/steps?since_ns={stats['time_ns']}")["steps"]
    assert later == []
    names = {entry["name"] for entry in hosted.json("GET", "/rooftune/techniques")["techniques"]}
    assert names >= {
        "batching",
        "slots",
        "token_budget",
        "chunked_prefill",
        "prefix_cache",
        "weight_kernel",
        "threads",
    }


def test_metrics_are_read_by_prometheus_own_parser(hosted: Hosted) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    before = hosted.json("GET", "/rooftune/stats")["counters"]
    complete(hosted, max_tokens=5, extra_body={"ignore_eos": True})
    _, _, raw = hosted.request("GET", "/metrics")
    values = {
        sample.name: sample.value
        for family in text_string_to_metric_families(raw.decode())
        for sample in family.samples
        if "le" not in sample.labels
    }
    assert values["rooftune:generation_tokens_total"] == before["generated_tokens"] + 5
    assert values["rooftune:num_requests_running"] == 0
    assert values["rooftune:time_to_first_token_seconds_count"] >= 1
    assert values["rooftune:request_success_total"] >= 1


def test_the_prefix_cache_is_proven_cleared(hosted: Hosted) -> None:
    prompt = "another prompt that fills a page or two of sixteen tokens for certain"
    complete(hosted, prompt=prompt)
    assert hosted.json("GET", "/rooftune/stats")["gauges"]["pages_cached"] > 0
    told = hosted.json("POST", "/reset_prefix_cache")
    assert told == {"cleared": True, "pages_cached": 0}
    assert complete(hosted, prompt=prompt).usage.prompt_tokens_details.cached_tokens == 0


def test_null_fields_are_as_if_left_out(hosted: Hosted) -> None:
    body = {"model": hosted.model, "prompt": "an", "max_tokens": 2, "stop": None, "seed": None, "logprobs": None,
            "presence_penalty": 0.0, "user": "me", "best_of": 1, "echo": False, "logit_bias": {}}  # fmt: skip
    status, _, raw = hosted.request("POST", "/v1/completions", body)
    assert status == 200, raw
    assert json.loads(raw)["choices"][0]["finish_reason"]
