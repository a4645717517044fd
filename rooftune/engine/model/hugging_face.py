"""A Hugging Face folder: config.json, safetensors (one file or shards), tokenizer.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rooftune.engine.model.shape_reading import shape_from_hugging_face
from rooftune.engine.model.source import ModelSource, StoredModel, check_complete
from rooftune.engine.model.tokenizer import tokenizer_from_file
from rooftune.errors import WrongInput
from rooftune.kernels.contracts import StorageFormat, StoredTensor

_INDEX = "model.safetensors.index.json"


def read_hugging_face(source: ModelSource) -> StoredModel:
    """Read the folder at ``source.path``. Raises WrongInput in one line that names the file to mend."""
    folder = source.path
    config = _json(folder / "config.json")
    settings = _json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").exists() else {}
    generation = (
        _json(folder / "generation_config.json") if (folder / "generation_config.json").exists() else {}
    )
    ends = generation.get("eos_token_id")
    eos = frozenset() if ends is None else frozenset(ends) if isinstance(ends, list) else frozenset((ends,))
    shape = shape_from_hugging_face(config, f"{folder.name}/config.json", eos)
    wanted = {name for name, _ in shape.tensors()}
    tensors = _tensors(folder, wanted)
    check_complete(shape, tensors, folder.name)
    return StoredModel(
        source=source,
        shape=shape,
        tensors=tensors,
        tokenizer=tokenizer_from_file(folder / "tokenizer.json", settings, shape.bos, shape.vocabulary),
        chat_template=_template(folder, settings),
        template_tokens=_template_tokens(settings),
        license=source.license,
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise WrongInput(
            f"{path.parent.name}: {path.name} is missing; give a complete model folder"
        ) from error
    except (OSError, ValueError) as error:
        raise WrongInput(f"{path.parent.name}/{path.name}: not readable as JSON ({error})") from error
    if not isinstance(value, dict):
        raise WrongInput(f"{path.parent.name}/{path.name}: must hold one JSON object")
    return value


def _template(folder: Path, settings: dict[str, Any]) -> str | None:
    beside = folder / "chat_template.jinja"
    if beside.exists():
        return beside.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _template_tokens(settings: dict[str, Any]) -> dict[str, str]:
    named = {name: settings.get(name) for name in ("bos_token", "eos_token", "unk_token", "pad_token")}
    texts = {
        name: value.get("content") if isinstance(value, dict) else value for name, value in named.items()
    }
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _files(folder: Path) -> list[Path]:
    if (folder / _INDEX).exists():
        listed = _json(folder / _INDEX).get("weight_map", {})
        names = sorted({str(name) for name in listed.values()})
        if any(Path(name).name != name for name in names):
            raise WrongInput(f"{folder.name}/{_INDEX}: shard names must be plain file names")
        return [folder / name for name in names]
    return [folder / "model.safetensors"]


def _tensors(folder: Path, wanted: set[str]) -> dict[str, StoredTensor]:
    import torch
    from safetensors import SafetensorError, safe_open

    formats: dict[torch.dtype, StorageFormat] = {
        torch.float32: "f32",
        torch.float16: "f16",
        torch.bfloat16: "bf16",
    }
    tensors: dict[str, StoredTensor] = {}
    for path in _files(folder):
        where = f"{folder.name}/{path.name}"
        if not path.exists():
            raise WrongInput(f"{where} is missing; give a folder with safetensors weights")
        try:
            with safe_open(path, framework="pt") as file:
                # A tied model may carry a copy of its head; names that the shape does not have are left alone.
                for name in wanted & set(file.keys()):
                    tensor = file.get_tensor(name)
                    if tensor.dtype not in formats:
                        kind = str(tensor.dtype).removeprefix("torch.")
                        raise WrongInput(
                            f"{where}: tensor '{name}' is {kind}; supported are float32, float16, bfloat16"
                        )
                    data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
                    tensors[name] = StoredTensor(name, formats[tensor.dtype], tuple(tensor.shape), data)
        except (SafetensorError, OSError) as error:
            raise WrongInput(f"{where}: not a whole safetensors file ({error}); get it again") from error
    return tensors
