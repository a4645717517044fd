from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rooftune.engine.contracts import SequenceSlice
from rooftune.engine.model.forward import logits
from rooftune.engine.model.llama import LlamaRunner
from rooftune.engine.model.load import LoadedModel, load_runner
from rooftune.engine.model.plan import attention_plan, logit_rows
from rooftune.errors import WrongInput
from tests.model.tiny import VOCABULARY, Tiny, write_gguf, write_hugging_face

LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip

FAMILY = {
    "grouped, tied": Tiny(),
    "untied": Tiny(tied=False),
    "one KV head": Tiny(kv_heads=1),
    "as many KV heads": Tiny(kv_heads=4),
    "head size apart from hidden": Tiny(head_size=32),
    "llama3 rope": Tiny(rope_scaling=LLAMA3),
    "linear rope": Tiny(rope_scaling={"rope_type": "linear", "factor": 4.0}),
    "attention bias": Tiny(attention_bias=True),
    "mistral": Tiny(architecture="mistral", extra_config={"sliding_window": None}),
    "qwen2": Tiny(architecture="qwen2", tied=False),
}


def tokens(count: int, seed: int = 1) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCABULARY, count).tolist()


def transformers_logits(folder: Path, ids: list[int]) -> torch.Tensor:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        return model.eval()(torch.tensor([ids])).logits[0]


@pytest.mark.parametrize("name", FAMILY)
def test_logits_are_those_of_transformers(tmp_path: Path, name: str) -> None:
    folder = write_hugging_face(tmp_path / "m", FAMILY[name])
    ids = tokens(80)
    ours, theirs = logits(load_runner(folder, "reference"), ids), transformers_logits(folder, ids)
    assert theirs.std() > 0.3, "flat logits would agree by themselves"
    torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=0)


def test_bfloat16_weights_give_the_logits_of_their_float32_values(tmp_path: Path) -> None:
    folder = write_hugging_face(tmp_path / "m", dtype="bfloat16")
    ids = tokens(40)
    torch.testing.assert_close(
        logits(load_runner(folder, "reference"), ids), transformers_logits(folder, ids), atol=1e-3, rtol=0
    )


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_a_gguf_gives_the_logits_of_its_folder(tmp_path: Path, architecture: str) -> None:
    """The permuted rows, the biases and the tied embedding of a GGUF, end to end."""
    tiny = Tiny(architecture=architecture)
    folder = write_hugging_face(tmp_path / "m", tiny)
    gguf = write_gguf(tmp_path / "m.gguf", tiny, format="F32", embedding_format="F32")
    ids = tokens(60)
    torch.testing.assert_close(
        logits(load_runner(gguf, "reference"), ids),
        logits(load_runner(folder, "reference"), ids),
        atol=1e-4,
        rtol=0,
    )


def test_rope_factors_of_a_gguf_are_llama3_scaling(tmp_path: Path) -> None:
    tiny = Tiny(rope_scaling=LLAMA3)
    folder = load_runner(write_hugging_face(tmp_path / "m", tiny), "reference")
    plain = load_runner(write_hugging_face(tmp_path / "p", Tiny()), "reference")
    factors = plain.shape.frequencies() / folder.shape.frequencies()
    gguf = write_gguf(tmp_path / "m.gguf", Tiny(), format="F32", embedding_format="F32", rope_factors=factors)
    ids = tokens(60)
    assert (logits(plain, ids) - logits(folder, ids)).abs().max() > 0.01
    torch.testing.assert_close(
        logits(load_runner(gguf, "reference"), ids), logits(folder, ids), atol=1e-3, rtol=0
    )


def test_a_tied_model_keeps_one_matrix(tmp_path: Path) -> None:
    tied = load_runner(write_hugging_face(tmp_path / "t"), "reference").runner
    untied = load_runner(write_hugging_face(tmp_path / "u", Tiny(tied=False)), "reference").runner
    assert tied.weights.head is tied.weights.embedding
    assert untied.weights.head is not untied.weights.embedding
    assert tied.describe()["weight_bytes"] == untied.describe()["weight_bytes"]


# --- one sequence in many ways --------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["reference", "packed"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_runner(write_gguf(tmp_path_factory.mktemp("r") / "m.gguf"), request.param, threads=2)


def run(runner: LlamaRunner, steps: list[list[SequenceSlice]]) -> list[torch.Tensor]:
    return [runner.forward(step) for step in steps]


def close(loaded: LoadedModel, a: torch.Tensor, b: torch.Tensor) -> None:
    """Float32 sums may differ by their order; 8-bit activations make a last-bit change one step of the grid."""
    exact = loaded.runner.operators.name == "reference"
    torch.testing.assert_close(a, b, atol=1e-4 if exact else 0.15, rtol=0)


def test_chunks_pages_and_batches_change_nothing(loaded: LoadedModel) -> None:
    """Whole, in chunks, in scattered pages, beside other sequences, token by token: the same logits."""
    ids, other = tokens(45), tokens(33, seed=2)
    whole = logits(loaded, ids)
    close(loaded, logits(loaded, ids, step=7), whole)
    runner = loaded.runner.sharing_weights()
    runner.allocate(40, 4)
    pages, other_pages = [31, 2, 17, 8, 30, 5, 6, 39, 0, 11, 12, 13], [1, 3, 4, 7, 9, 10, 14, 15, 16]
    got = [
        *run(runner, [[SequenceSlice(ids[:10], 0, pages, 10)]]),
        runner.forward(
            [SequenceSlice(other[:20], 0, other_pages, 0), SequenceSlice(ids[10:13], 10, pages, 3)]
        ),
        runner.forward(
            [SequenceSlice(ids[13:40], 13, pages, 27), SequenceSlice(other[20:], 20, other_pages, 1)]
        ),
    ]
    close(loaded, got[2][27:], logits(loaded, other)[-1:])
    got[2] = got[2][:27]
    got += run(runner, [[SequenceSlice(ids[at : at + 1], at, pages, 1)] for at in range(40, 45)])
    close(loaded, torch.cat(got), whole)


def test_a_later_prompt_in_used_pages_sees_nothing_of_the_earlier(loaded: LoadedModel) -> None:
    runner = loaded.runner.sharing_weights()
    runner.allocate(8, 8)
    first = runner.forward([SequenceSlice(tokens(30), 0, [0, 1, 2, 3], 1)])
    runner.forward([SequenceSlice(tokens(32, seed=5), 0, [0, 1, 2, 3], 1)])
    torch.testing.assert_close(runner.forward([SequenceSlice(tokens(30), 0, [0, 1, 2, 3], 1)]), first)


def test_only_asked_logits_come_back(loaded: LoadedModel) -> None:
    runner = loaded.runner.sharing_weights()
    runner.allocate(8, 8)
    assert runner.forward([SequenceSlice([1, 2, 3], 0, [0], 0)]).shape == (0, VOCABULARY)
    both = runner.forward([SequenceSlice([1, 2, 3], 0, [0], 2), SequenceSlice([4], 0, [1], 1)])
    assert both.shape == (3, VOCABULARY) and both.dtype == torch.float32


def test_whole_sequence_logits_leave_a_serving_runner_alone(loaded: LoadedModel) -> None:
    runner = loaded.runner.sharing_weights()
    runner.allocate(4, 16)
    runner.forward([SequenceSlice(tokens(20), 0, [0, 1], 1)])
    serving = dataclasses.replace(loaded, runner=runner)
    kept = runner._caches[0].keys.clone()
    logits(serving, tokens(50, seed=9))
    assert torch.equal(runner._caches[0].keys, kept)


def test_the_whole_step_is_the_operators_one_by_one(tmp_path: Path) -> None:
    for tiny in (Tiny(), Tiny(tied=False, kv_heads=4, rope_scaling=LLAMA3)):
        loaded = load_runner(write_gguf(tmp_path / "m.gguf", tiny), "packed")
        assert loaded.runner.describe()["whole_step"] == {"active": True, "reason": None}
        single = dataclasses.replace(loaded, runner=loaded.runner.sharing_weights(whole_step=False))
        assert single.runner.describe()["whole_step"]["active"] is False
        ids = tokens(70)
        torch.testing.assert_close(logits(loaded, ids), logits(single, ids), atol=1e-5, rtol=0)


def test_a_model_with_biases_says_why_it_runs_one_by_one(tmp_path: Path) -> None:
    folder = write_hugging_face(tmp_path / "m", Tiny(attention_bias=True))
    packed, reference = load_runner(folder, "packed"), load_runner(folder, "reference")
    described = packed.runner.describe()
    assert described["whole_step"]["active"] is False and "bias" in described["whole_step"]["reason"]
    ids = tokens(50)
    torch.testing.assert_close(logits(packed, ids), logits(reference, ids), atol=1e-3, rtol=0)


def test_packed_on_float_weights_says_what_it_does_and_does_it(tmp_path: Path) -> None:
    folder = write_hugging_face(tmp_path / "m", dtype="bfloat16")
    packed, reference = load_runner(folder, "packed"), load_runner(folder, "reference")
    assert "float32" in packed.runner.describe()["weight_kernel_detail"]
    assert packed.runner.describe()["already_quantized"] is None
    ids = tokens(50)
    torch.testing.assert_close(logits(packed, ids), logits(reference, ids), atol=1e-3, rtol=0)


def divergence(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """KL(p || q) per row, nats."""
    p, q = p.log_softmax(-1), q.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1)


@pytest.mark.parametrize("format", ["Q4_0", "Q4_1", "Q8_0"])
def test_packed_formats_stay_near_their_dequantized_values(tmp_path: Path, format: str) -> None:
    path = write_gguf(tmp_path / "m.gguf", Tiny(layers=3), format=format)
    packed, reference = load_runner(path, "packed"), load_runner(path, "reference")
    assert packed.runner.describe()["already_quantized"] == format
    ids = tokens(100)
    ours, exact = logits(packed, ids), logits(reference, ids)
    assert divergence(exact, ours).mean() < 0.01
    assert (ours.argmax(-1) == exact.argmax(-1)).float().mean() > 0.9
    # Packed bytes are the file's own, not four times as many.
    assert packed.runner.describe()["weight_bytes"] < reference.runner.describe()["weight_bytes"] / 3


# --- description, counters, errors ----------------------------------------------------------------------------


def test_description_and_counters(loaded: LoadedModel) -> None:
    described = loaded.runner.describe()
    assert described["parameters"] == loaded.shape.parameters()
    assert described["kv_bytes_per_token"] == 2 * 2 * 2 * 16 * 4
    assert described["config"]["num_key_value_heads"] == 2
    assert described["operators"] == loaded.runner.operators.name
    assert described["head_bytes"] < described["weight_bytes"]
    runner = loaded.runner.sharing_weights()
    runner.allocate(2, 16)
    before = sum(count for name, count in runner.counters().items() if "linear" in name)
    runner.forward([SequenceSlice([1, 2], 0, [0], 1)])
    after = sum(count for name, count in runner.counters().items() if "linear" in name)
    assert after - before == 7 * loaded.shape.layers + 1


def test_wrong_use(loaded: LoadedModel, tmp_path: Path) -> None:
    runner = loaded.runner.sharing_weights()
    with pytest.raises(RuntimeError, match="allocate"):
        runner.forward([SequenceSlice([1], 0, [0], 1)])
    with pytest.raises(WrongInput, match="0 tokens"):
        logits(loaded, [])
    with pytest.raises(WrongInput, match="512"):
        logits(loaded, [1] * 513)
    with pytest.raises(WrongInput, match="weight kernel"):
        load_runner(write_hugging_face(tmp_path / "m"), "fast")  # type: ignore[arg-type]


# --- the plan -------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(data=st.data(), page_size=st.integers(1, 5))
def test_plan_against_one_token_at_a_time(data: st.DataObject, page_size: int) -> None:
    """Positions, slots and rows as a loop over every token would give them."""
    slices: list[SequenceSlice] = []
    free = list(range(200))
    for _ in range(data.draw(st.integers(1, 4))):
        new, context = data.draw(st.integers(1, 7)), data.draw(st.integers(0, 9))
        need = -(-(new + context) // page_size) + data.draw(st.integers(0, 2))
        pages, free = free[:need][::-1], free[need:]
        slices.append(SequenceSlice([0] * new, context, pages, data.draw(st.integers(0, new))))
    plan = attention_plan(slices, page_size)
    positions: list[int] = []
    slots: list[int] = []
    rows: list[int] = []
    for one in slices:
        for index in range(len(one.tokens)):
            position = one.context + index
            if index >= len(one.tokens) - one.logits:
                rows.append(len(positions))
            positions.append(position)
            slots.append(one.pages[position // page_size] * page_size + position % page_size)
    assert plan.positions.tolist() == positions
    assert plan.slot_mapping.tolist() == slots
    assert logit_rows(slices).tolist() == rows
    assert plan.query_starts.tolist() == [0, *np.cumsum([len(one.tokens) for one in slices]).tolist()]
    assert plan.context_lengths.tolist() == [one.context for one in slices]
    for row, one in enumerate(slices):
        assert plan.page_tables[row, : len(one.pages)].tolist() == list(one.pages)
    wanted: dict[str, Any] = {
        "query_starts": torch.int32, "context_lengths": torch.int32, "page_tables": torch.int32,
        "positions": torch.int32, "slot_mapping": torch.int64,
    }  # fmt: skip
    assert {name: getattr(plan, name).dtype for name in wanted} == wanted


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (SequenceSlice([1, 2, 3], 2, [0], 1), "cannot hold"),
        (SequenceSlice([], 2, [0], 0), "at least one"),
        (SequenceSlice([1], -1, [0], 0), "0 or more"),
        (SequenceSlice([1], 0, [0], 2), "logits of 2"),
    ],
)
def test_plans_that_cannot_be(wrong: SequenceSlice, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        attention_plan([wrong], 4)
