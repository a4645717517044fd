"""Configurations, their file, and the technique table: wrong words are told, right ones reach the engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooftune.engine.contracts import EngineConfig
from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.runtimes.embedded.configuration_file import read_configuration, write_configuration
from rooftune.runtimes.embedded.runtime import EmbeddedRuntime
from rooftune.runtimes.embedded.switches import SWITCHES, defaults, parse_assignment, resolve
from rooftune.runtimes.embedded.technique_table import TECHNIQUES
from rooftune.runtimes.registry import runtime_for, technique_table
from rooftune.spec import parse_spec


def test_defaults_are_the_engines() -> None:
    assert resolve(defaults() | {"batching": "dynamic"}) == EngineConfig(batching="dynamic")
    assert resolve({}) == EngineConfig()
    assert set(defaults()) == set(SWITCHES)


@pytest.mark.parametrize(
    ("configuration", "field", "value"),
    [
        ({"slots": "8"}, "slots", 8),
        ({"chunked_prefill": "off"}, "chunked_prefill", False),
        ({"chunked_prefill": True}, "chunked_prefill", True),
        ({"prefix_cache": False}, "prefix_cache", "none"),
        ({"prefix_cache": "on"}, "prefix_cache", "hash"),
        ({"batching": "dynamic", "batch_wait": "50ms"}, "batch_wait", 0.05),
        ({"batching": "dynamic", "batch_wait": "0.25"}, "batch_wait", 0.25),
        ({"batching": "dynamic", "batch_wait": 0}, "batch_wait", 0.0),
        ({"batching": "continuous", "batch_wait": 0.1}, "batch_wait", 0.1),
    ],
)
def test_settings_as_people_write_them(configuration: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(resolve(configuration), field) == value


@pytest.mark.parametrize(
    ("configuration", "words"),
    [
        ({"slot": 4}, "did you mean 'slots'"),
        ({"slots": 0}, "from 1 to"),
        ({"slots": True}, "whole number"),
        ({"slots": 4.0}, "whole number"),
        ({"slots": "many"}, "whole number"),
        ({"batching": "paged"}, "one of static, dynamic, continuous"),
        ({"chunked_prefill": 1}, "on or off"),
        ({"prefix_cache": "radix"}, "one of none, hash"),
        ({"batching": "dynamic", "batch_wait": "4 tokens"}, "a time"),
        ({"batching": "dynamic", "batch_wait": True}, "a time"),
        ({"slots": 64, "token_budget": 32}, "raise token_budget"),
        ({"pool_tokens": 8}, "one page"),
    ],
)
def test_wrong_settings_are_told(configuration: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongInput, match=words):
        EmbeddedRuntime("any").check(configuration)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "batching": st.sampled_from(["static", "continuous"]),
            "slots": st.integers(1, 64),
            "token_budget": st.integers(64, 4096),
            "chunked_prefill": st.booleans(),
            "prefix_cache": st.sampled_from(["none", "hash"]),
            "weight_kernel": st.sampled_from(["reference", "packed"]),
            "pool_tokens": st.integers(16, 1 << 20),
            "threads": st.integers(1, 64),
        },
    )
)
def test_every_configuration_survives_its_file_and_its_command_line(
    tmp_path_factory: pytest.TempPathFactory, configuration: dict[str, Any]
) -> None:
    file = tmp_path_factory.mktemp("configuration") / "accepted.yaml"
    write_configuration(file, "folder/modèle", configuration)
    read = read_configuration(file)
    assert read.model == "folder/modèle" and read.techniques == configuration
    config = resolve(configuration)
    words = [f"{name}={value}" for name, value in configuration.items()]
    assert resolve(dict(map(parse_assignment, words))) == config


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a", "a mapping"),
        ("a: [", "line 1: not valid YAML"),
        ("technique: {}", "did you mean 'techniques'"),
        ("runtime: vllm", "only 'embedded'"),
        ("techniques: [slots]", "a mapping such as"),
        ("techniques: {slots: [1]}", "must be one value"),
        ("model: 3", "a name or a path"),
    ],
)
def test_a_wrong_configuration_file_is_told(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(WrongInput, match=words):
        read_configuration(file)


def test_a_configuration_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem):
        write_configuration(tmp_path / "missing" / "c.yaml", "m", {})
    with pytest.raises(WrongInput, match="no such"):
        read_configuration(tmp_path / "c.yaml")
    (tmp_path / "c.yaml").write_text("model: old")
    write_configuration(tmp_path / "c.yaml", "new", {"slots": 2})
    assert read_configuration(tmp_path / "c.yaml").model == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.yaml"]


def test_every_technique_has_a_mapping_or_a_reason() -> None:
    catalogue = pytest.importorskip("rooftune.techniques.catalogue")
    cards = catalogue.all_cards()
    assert {card.name for card in cards} == set(TECHNIQUES)
    for runtime in ("embedded", "url"):
        table = technique_table(runtime)
        assert set(table) == set(TECHNIQUES)
        for name, mapping in table.items():
            assert bool(mapping.switches) != bool(mapping.reason), name
            assert set(mapping.switches) <= set(SWITCHES), name
    for card in cards:
        if card.in_engine:
            assert {knob.switch for knob in card.knobs} <= set(TECHNIQUES[card.name].switches), card.name


def test_the_registry_checks_options() -> None:
    base = {"model": "m", "workload": {"arrivals": {"process": "poisson", "rate": "1/s"}}}
    assert runtime_for(parse_spec(base)).name == "embedded"
    with pytest.raises(WrongInput, match="did you mean 'start_timeout'"):
        runtime_for(parse_spec({**base, "runtime": {"name": "embedded", "options": {"start_time": "3s"}}}))
    with pytest.raises(WrongInput, match="'base_url' is missing"):
        runtime_for(parse_spec({**base, "runtime": {"name": "url"}}))


def test_the_runtimes_need_no_torch() -> None:
    code = (
        "import sys; import rooftune.runtimes.registry, rooftune.runtimes.embedded.runtime, "
        "rooftune.runtimes.url.runtime, rooftune.runtimes.embedded.technique_table, rooftune.cli.serve; "
        "heavy = {'torch', 'starlette', 'uvicorn', 'httpx'} & set(sys.modules); sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
