"""What a model is found as (ModelSource) and what is read from it (StoredModel)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rooftune.engine.model.shape import ModelShape
from rooftune.errors import WrongInput

if TYPE_CHECKING:
    from rooftune.engine.model.tokenizer import Tokenizer
    from rooftune.kernels.contracts import StoredTensor


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a model lies. ``name`` is what a server calls it; ``license`` is None where the source states none."""

    name: str
    path: Path
    kind: Literal["gguf", "hugging_face"]
    license: str | None = None
    packaged: bool = False


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model as its files hold it, Hugging Face names and row order, nothing dequantized."""

    source: ModelSource
    shape: ModelShape
    tensors: Mapping[str, StoredTensor]
    tokenizer: Tokenizer
    chat_template: str | None
    template_tokens: Mapping[str, str]
    """Texts of special tokens by their names in templates: bos_token, eos_token."""
    license: str | None

    def formats(self) -> dict[str, int]:
        """Number of tensors by storage format."""
        return dict(Counter(tensor.format for tensor in self.tensors.values()))

    def bytes(self) -> int:
        """Bytes of all tensors as stored."""
        return sum(tensor.data.nbytes for tensor in self.tensors.values())

    def bytes_per_step(self) -> int:
        """Bytes that one forward pass must read as stored: all but an untied embedding, of which only rows are."""
        embedding = 0 if self.shape.tied_embedding else self.tensors["model.embed_tokens.weight"].data.nbytes
        return self.bytes() - embedding

    def already_quantized(self) -> str | None:
        """The block format that holds most of the layers' weights, such as Q4_1; None when they are floats."""
        held: Counter[str] = Counter()
        for name, tensor in self.tensors.items():
            if ".layers." in name:
                held[tensor.format] += tensor.data.nbytes
        most = held.most_common(1)[0][0]
        return most.upper() if most.startswith("q") else None


def check_complete(shape: ModelShape, tensors: Mapping[str, StoredTensor], where: str) -> None:
    """Raise WrongInput for the first tensor that is missing or has another shape than the model's."""
    for name, expected in shape.tensors():
        if name not in tensors:
            raise WrongInput(
                f"{where}: tensor '{name}' is missing; the file holds no complete model, get it again"
            )
        if tensors[name].shape != expected:
            raise WrongInput(
                f"{where}: tensor '{name}' has shape {tensors[name].shape}, the model needs {expected}"
            )
