"""The gates on the real SmolLM2: float32 equals transformers, packed stays near float32."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from rooftune.engine.contracts import SequenceSlice
from rooftune.engine.model.catalogue import PACKAGED
from rooftune.engine.model.forward import logits
from rooftune.engine.model.load import LoadedModel, load_runner, load_stored
from rooftune.kernels.stored import dequantize
from rooftune.kernels.table import operators

pytestmark = [pytest.mark.model, pytest.mark.slow]

QUESTIONS = [
    "What is the capital of France?",
    "Write two sentences about the sea.",
    "Explain why the sky is blue to a child.",
    "List three uses of a hammer.",
    "What is 17 + 25?",
    "Translate 'good morning' into Spanish.",
    "Give me a short recipe for pancakes.",
    "Who wrote Romeo and Juliet?",
    "Name a prime number above 100 and say why it is prime.",
    "Write a Python function that reverses a string.",
]

TEXT = """The harbour town woke slowly. Fishing boats came back before sunrise, and by seven the market hall smelled of
salt and coffee. Maria counted the crates: 24 of herring, 13 of mackerel, 7 of plaice. Prices had fallen by 12% since
2019, so she wrote every sale into a small blue book. "If we sell the rest before noon," she said, "we can repair the
engine this week." Her brother did not answer; he was reading the weather report on an old tablet.

Water boils at 100 degrees Celsius at sea level, but at lower temperatures high in the mountains, because the pressure
of the air is lower there. Engineers use the same fact in the other direction: a pressure cooker raises the boiling
point, so food is done sooner. The relation between pressure and temperature is not a straight line.

def mean(values):
    total = 0.0
    for value in values:
        total += value
    return total / len(values)

The committee met three times in spring. It agreed on the budget, argued about the bridge, and postponed the question
of the school until the new figures arrive in September."""


@pytest.fixture(scope="module")
def reference(smollm_path: Path) -> LoadedModel:
    return load_runner("smollm2-135m", "reference", threads=2)


@pytest.fixture(scope="module")
def packed(reference: LoadedModel) -> LoadedModel:
    return load_stored(reference.stored, operators("packed", 2), threads=2)


@pytest.fixture(scope="module")
def theirs(reference: LoadedModel, smollm_path: Path) -> Any:
    """transformers' model with the tensors of transformers' own GGUF reader (without its loader's accelerate)."""
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    config = reference.shape.hugging_face_config()
    model = LlamaForCausalLM(LlamaConfig(**config))
    read = load_gguf_checkpoint(str(smollm_path), return_tensors=True, model_to_load=model)
    for key in (
        "hidden_size",
        "num_key_value_heads",
        "rope_theta",
        "rms_norm_eps",
        "vocab_size",
        "eos_token_id",
    ):
        assert read["config"][key] == config[key], key
    missing, unexpected = model.load_state_dict(read["tensors"], strict=False)
    assert missing in ([], ["lm_head.weight"]) and not unexpected
    model.tie_weights()
    return model.float().eval()


def prompts(loaded: LoadedModel) -> list[list[int]]:
    assert loaded.template is not None
    return [
        loaded.tokenizer.encode(loaded.template.render([{"role": "user", "content": question}]))
        for question in QUESTIONS
    ]


def greedy(loaded: LoadedModel, batch: list[list[int]], count: int) -> list[list[int]]:
    """``count`` greedy tokens for each prompt, all sequences together in every step, pages interleaved."""
    runner, pages = loaded.runner.sharing_weights(), 16
    runner.allocate(pages * len(batch), 16)
    tables = [list(range(row, pages * len(batch), len(batch))) for row in range(len(batch))]
    context, new = [0] * len(batch), [list(prompt) for prompt in batch]
    out: list[list[int]] = [[] for _ in batch]
    for _ in range(count):
        step = [SequenceSlice(n, c, table, 1) for n, c, table in zip(new, context, tables, strict=True)]
        chosen = runner.forward(step).argmax(-1).tolist()
        context = [c + len(n) for c, n in zip(context, new, strict=True)]
        new = [[token] for token in chosen]
        for row, token in zip(out, chosen, strict=True):
            row.append(token)
    return out


def test_the_shape_is_the_published_one(reference: LoadedModel) -> None:
    shape = reference.shape
    assert (shape.layers, shape.hidden, shape.heads, shape.kv_heads, shape.vocabulary) == (
        30,
        576,
        9,
        3,
        49152,
    )
    assert shape.parameters() == 134_515_008 and shape.tied_embedding
    assert reference.stored.formats() == {"q4_1": 210, "q8_0": 1, "f32": 61}
    assert reference.stored.already_quantized() == "Q4_1"
    assert reference.source.license == PACKAGED["smollm2-135m"].license == "Apache-2.0"


def test_weights_are_those_that_transformers_reads(reference: LoadedModel, theirs: Any) -> None:
    state = theirs.state_dict()
    for name, tensor in reference.stored.tensors.items():
        torch.testing.assert_close(
            torch.from_numpy(dequantize(tensor)), state[name], atol=0, rtol=0, msg=name
        )


def test_float32_logits_are_those_of_transformers(reference: LoadedModel, theirs: Any) -> None:
    ids = reference.tokenizer.encode(TEXT)
    assert len(ids) > 250
    with torch.no_grad():
        expected = theirs(torch.tensor([ids])).logits[0]
    torch.testing.assert_close(logits(reference, ids), expected, atol=1e-3, rtol=0)


def test_greedy_text_is_that_of_transformers(reference: LoadedModel, theirs: Any) -> None:
    batch = prompts(reference)
    longest = max(len(prompt) for prompt in batch)
    padded = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in batch])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in batch])
    theirs.generation_config.eos_token_id = None
    expected = theirs.generate(
        padded, attention_mask=mask, max_new_tokens=64, do_sample=False, pad_token_id=0
    )[:, longest:].tolist()
    ours = greedy(reference, batch, 64)
    decode = reference.tokenizer.decode
    assert [decode(row) for row in ours] == [decode(row) for row in expected]
    assert ours == expected
    assert "Paris" in decode(ours[0])


def test_the_template_prints_what_transformers_prints(reference: LoadedModel) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
    assert reference.template is not None
    expected, _ = render_jinja_template(
        [messages], chat_template=reference.template.source, add_generation_prompt=True
    )
    assert reference.template.render(messages) == expected[0]
    ids = reference.tokenizer.encode(expected[0], add_bos=True)
    assert ids == reference.tokenizer.encode(expected[0], add_bos=False), (
        "the template writes the begin token"
    )


def test_packed_stays_near_float32(reference: LoadedModel, packed: LoadedModel) -> None:
    ids = reference.tokenizer.encode(TEXT)
    exact, ours = logits(reference, ids).log_softmax(-1), logits(packed, ids).log_softmax(-1)
    divergence = (exact.exp() * (exact - ours)).sum(-1)
    agreement = (exact.argmax(-1) == ours.argmax(-1)).float().mean().item()
    targets = torch.tensor(ids[1:])
    loss = [-rows[:-1].gather(1, targets[:, None]).mean().item() for rows in (exact, ours)]
    print(
        f"packed against float32 on {len(ids)} tokens: mean KL {divergence.mean():.5f} nats,"
        f" p99 {divergence.quantile(0.99):.4f}, top-1 agreement {agreement:.4f}, loss {loss[0]:.4f} -> {loss[1]:.4f}"
    )
    assert divergence.mean() < 0.01
    assert agreement > 0.93
    assert abs(loss[1] - loss[0]) < 0.05


def test_packed_runs_in_whole_steps_on_the_file_s_own_bytes(packed: LoadedModel) -> None:
    described = packed.runner.describe()
    assert described["whole_step"]["active"] and "Q4_1" in described["weight_kernel_detail"]
    assert described["weight_bytes"] == pytest.approx(packed.stored.bytes_per_step(), rel=0.05)
    one_by_one = dataclasses.replace(packed, runner=packed.runner.sharing_weights(whole_step=False))
    ids = packed.tokenizer.encode(TEXT)[:100]
    torch.testing.assert_close(logits(packed, ids), logits(one_by_one, ids), atol=1e-4, rtol=0)
    batch = prompts(packed)[:3]
    assert greedy(packed, batch, 8) == [greedy(packed, [prompt], 8)[0] for prompt in batch]
