"""The implementations of the operators by name."""

from __future__ import annotations

from rooftune.errors import WrongInput
from rooftune.kernels.contracts import Operators


def operators(name: str, threads: int) -> Operators:
    """``reference``: PyTorch, float32 of the dequantized weights. ``packed``: native kernels on the file's own grid.

    ``WrongInput`` for another name, ``EnvironmentProblem`` where the native extension is missing.
    """
    if name == "reference":
        from rooftune.kernels.reference import ReferenceOperators

        return ReferenceOperators(threads)
    if name == "packed":
        from rooftune.kernels.native_cpu import NativeOperators

        return NativeOperators(threads)
    raise WrongInput(f"weight kernel {name!r} is not known; it can be reference or packed")
