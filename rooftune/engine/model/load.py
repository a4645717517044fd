"""From a model's name to everything that serving needs: runner, tokenizer, chat template."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rooftune.engine.model.catalogue import locate
from rooftune.engine.model.chat import ChatTemplate
from rooftune.engine.model.llama import LlamaRunner
from rooftune.engine.model.shape import ModelShape
from rooftune.engine.model.source import ModelSource, StoredModel
from rooftune.engine.model.tokenizer import Tokenizer
from rooftune.errors import EnvironmentProblem
from rooftune.kernels.contracts import Operators
from rooftune.kernels.table import operators
from rooftune.progress import Progress


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to run. ``template`` is None where the model states no chat template."""

    runner: LlamaRunner
    tokenizer: Tokenizer
    template: ChatTemplate | None
    shape: ModelShape
    source: ModelSource
    stored: StoredModel


def read_model(source: ModelSource) -> StoredModel:
    """Read the files of a model that was located. Raises WrongInput in one line."""
    if source.kind == "gguf":
        from rooftune.engine.model.gguf_file import read_gguf

        return read_gguf(source)
    from rooftune.engine.model.hugging_face import read_hugging_face

    return read_hugging_face(source)


def load_runner(
    model: str | Path,
    weight_kernel: Literal["reference", "packed"] = "packed",
    threads: int = 2,
    progress: Progress | None = None,
) -> LoadedModel:
    """Locate, read and pack a model.

    weight_kernel "reference": PyTorch float32 of the dequantized weights. "packed": native kernels on the
    file's own grid; matrices that the file holds as floats run in the native float32 linear, which
    ``describe()["weight_kernel_detail"]`` says. EnvironmentProblem where the native kernels are not built.
    """
    stored = read_model(locate(str(model), progress))
    return load_stored(stored, operators(weight_kernel, threads), threads)


def load_stored(stored: StoredModel, packed_by: Operators, threads: int | None = None) -> LoadedModel:
    """Pack a model that was read, with given operators."""
    try:
        runner = LlamaRunner(stored, packed_by, threads=threads)
    except MemoryError as error:
        raise EnvironmentProblem(
            f"{stored.source.name}: not enough memory for {stored.shape.parameters() * 4 / 2**30:.1f} GiB of weights"
        ) from error
    return LoadedModel(runner, stored.tokenizer, template_of(stored), stored.shape, stored.source, stored)


def template_of(stored: StoredModel) -> ChatTemplate | None:
    """The model's chat template, compiled, with the texts of its special tokens."""
    if stored.chat_template is None:
        return None
    return ChatTemplate(stored.chat_template, stored.template_tokens)
