"""The catalogue is whole, every card is honest about what it needs, and the table of a runtime covers it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rooftune.cli.main import main
from rooftune.errors import WrongInput
from rooftune.runtimes.embedded.switches import SWITCHES, defaults
from rooftune.runtimes.embedded.technique_table import TECHNIQUES
from rooftune.techniques.card import TechniqueContext
from rooftune.techniques.catalogue import all_cards, card
from rooftune.techniques.facts import FACTS
from rooftune.techniques.problems import PROBLEMS

# Every technique that the method names in its section 4.
NAMES = """weight_quantization distillation structured_pruning unstructured_pruning speculative_decoding ngram_speculation
lookahead_decoding medusa attention_kernel kv_quantization kv_compression selective_kv paged_attention
local_window_attention multi_query_attention grouped_query_attention cross_layer_kv_sharing prefix_caching static_batching
dynamic_batching continuous_batching more_slots fewer_slots replicas pd_disaggregation chunked_prefill tensor_parallelism
pipeline_parallelism admission_control packed_weight_kernel kernel_vectorization kernel_parallelization kernel_tiling
kernel_fusion compiler more_memory faster_hardware token_budget thread_placement""".split()  # noqa: SIM905

# The design's list of causes.
CAUSES = """prefill_compute compute_bound_batch decode_bandwidth kv_bandwidth kv_capacity kv_thrash mem_oom queue_slots
overload batch_wait prefill_interference head_of_line comm_tp comm_net ep_imbalance launch_overhead kernel_path threads
cpu_frontend cpu_preproc cpu_sampler gc_pause jit_warmup cache_miss_prefix routing offload_overhead proxy_overhead
spec_low_acceptance spec_saturated""".split()  # noqa: SIM905

MEASURED: dict[str, float | None] = {
    "slots": 4, "running_mean": 3.6, "running_max": 4, "waiting_mean": 2.5, "queue_mean": 0.6, "ttft_mean": 0.9,
    "tpot_p50": 0.02, "tpot_tail": 1.2, "mbu": 0.5, "mfu": 0.2, "shared_prefix_share": 0.6, "prompt_tokens_mean": 150,
    "prompt_tokens_max": 200, "output_tokens_mean": 32, "prefill_mean": 0.3, "prefill_step_max": 0.2,
    "prefill_time_share": 0.4, "decode_kv_share": 0.1, "kv_used_max": 0.2, "preemptions": 0, "cores": 2, "utilisation": 1.3,
    "kv_bytes_per_token": 46080, "memory_bytes": 16e9,
}  # fmt: skip


def context(
    cause: str | None = None, facts: dict[str, float | None] | None = None, **settings: Any
) -> TechniqueContext:
    return TechniqueContext(
        {**defaults(), **settings}, MEASURED if facts is None else facts, cause, frozenset(SWITCHES)
    )


def test_every_technique_of_the_method_has_a_card_and_no_other() -> None:
    assert sorted(one.name for one in all_cards()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_complete(name: str) -> None:
    one = card(name)
    assert one.title and one.summary.endswith(".") and one.evidence_of_active and one.source
    assert one.can_worsen, "no technique is free"
    assert one.problem in PROBLEMS and one.questions == PROBLEMS[one.problem].questions
    assert one.answers and set(one.answers) <= set(CAUSES)
    for question in one.questions:
        assert question.fact is None or question.fact in FACTS
    text = f"{one.summary} {one.notes} {one.evidence_of_active}".lower()
    for runtime in ("vllm", "sglang", "llama.cpp", "embedded", "openvino"):
        assert runtime not in text, "a card never names a runtime"


@pytest.mark.parametrize("name", NAMES)
def test_the_embedded_runtime_maps_or_refuses_each(name: str) -> None:
    mapping = TECHNIQUES[name]
    assert bool(mapping.switches) != bool(mapping.reason)
    assert set(mapping.switches) <= set(SWITCHES)
    assert bool(mapping.switches) == card(name).in_engine


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("facts", [MEASURED, {}], ids=["measured", "nothing measured"])
def test_a_card_judges_whatever_is_known(name: str, facts: dict[str, float | None]) -> None:
    one = card(name)
    for settings in ({}, {"batching": "static", "prefix_cache": "none", "chunked_prefill": False}):
        for cause in (None, *one.answers):
            seen = context(cause, facts, **settings)
            applies = one.applies(seen)
            assert applies.reason
            for effect in one.predict(seen):
                assert 0 < effect.low <= effect.high and effect.basis
            change = one.change(seen)
            if applies.yes:
                assert change and set(change) <= set(SWITCHES)
                assert any(seen.configuration[switch] != value for switch, value in change.items())


def test_a_runtime_without_the_switch_cannot() -> None:
    for one in all_cards():
        if one.in_engine:
            bare = TechniqueContext({}, MEASURED, None, frozenset())
            assert not one.applies(bare).yes and "no switch" in one.applies(bare).reason


@pytest.mark.parametrize(
    ("name", "settings", "facts", "yes", "words"),
    [
        ("continuous_batching", {"batching": "dynamic"}, {}, True, "dynamic"),
        ("continuous_batching", {}, {}, False, "already"),
        ("static_batching", {}, {}, False, "longest"),
        ("static_batching", {"batching": "dynamic", "batch_wait": 0.2}, {}, True, "0.2 s"),
        ("dynamic_batching", {"batching": "static"}, {"running_mean": 3.9}, False, "full already"),
        ("more_slots", {"slots": 4}, {}, True, "all 4 slots"),
        ("more_slots", {"slots": 4}, {"running_max": 3}, False, "never all in use"),
        ("more_slots", {"slots": 4, "pool_tokens": 512}, {}, False, "KV pool holds 2"),
        ("fewer_slots", {"slots": 4}, {}, False, "queue longer"),
        ("fewer_slots", {"slots": 4}, {"preemptions": 7}, True, "7 requests"),
        ("prefix_caching", {"prefix_cache": "none"}, {}, True, "60%"),
        ("prefix_caching", {"prefix_cache": "none"}, {"shared_prefix_share": 0.01}, False, "too little"),
        ("chunked_prefill", {"chunked_prefill": False}, {}, True, "0.2 s"),
        ("token_budget", {"chunked_prefill": False}, {}, False, "only with chunked prefill"),
        ("token_budget", {}, {"tpot_tail": 2.5}, True, "2.5 times"),
        ("token_budget", {}, {}, False, "fits into one step"),
        ("packed_weight_kernel", {"weight_kernel": "reference"}, {}, True, "float32"),
        ("packed_weight_kernel", {}, {}, False, "already"),
        ("thread_placement", {"threads": 1}, {}, True, "1 threads"),
        ("thread_placement", {"threads": 2}, {}, True, "leave it one"),
        ("more_memory", {}, {}, False, "20%"),
        ("more_memory", {}, {"kv_used_max": 0.99}, True, "99%"),
    ],
)
def test_judgements_name_the_measured_reason(
    name: str, settings: dict[str, Any], facts: dict[str, float], yes: bool, words: str
) -> None:
    applies = card(name).applies(context(None, {**MEASURED, **facts}, **settings))
    assert applies.yes is yes
    assert words in applies.reason


def test_what_only_undoes_our_own_dequantization_is_labelled() -> None:
    assert [one.name for one in all_cards() if one.undoes_own_dequantization] == ["packed_weight_kernel"]


def test_more_slots_stay_within_pool_and_budget() -> None:
    one = card("more_slots")
    assert one.change(context(slots=4)) == {"slots": 16}
    assert one.change(context(slots=4, pool_tokens=2400)) == {"slots": 10}
    assert one.change(context(slots=4, token_budget=8)) == {"slots": 16, "token_budget": 16}


def test_an_unknown_name_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WrongInput, match="did you mean 'prefix_caching'"):
        card("prefix_cache")
    assert main(["techniques", "show", "medussa"]) == 2
    assert "did you mean 'medusa'" in capsys.readouterr().err


def test_the_command_lists_and_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["techniques"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in NAMES)
    assert main(["techniques", "list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["techniques"]
    assert sorted(one["name"] for one in told) == sorted(NAMES)
    assert main(["techniques", "show", "chunked-prefill"]) == 0
    words = capsys.readouterr().out
    for part in (
        "First determine",
        "It can make worse",
        "Shows that it is on",
        "Source",
        "chunked_prefill",
        "arXiv",
    ):
        assert part in words
    assert main(["techniques", "show", "medusa", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert "does not have" in shown["runtimes"]["embedded"]["reason"]
