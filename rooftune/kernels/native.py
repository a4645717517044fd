"""Access to the native extension without PyTorch: which instruction set is in use, and probes of the machine's roofs."""

from __future__ import annotations

from types import ModuleType

from rooftune.errors import EnvironmentProblem, WrongInput


def extension() -> ModuleType:
    """The module ``rooftune._native``; ``EnvironmentProblem`` where it is not built."""
    try:
        from rooftune import _native
    except ImportError as error:
        raise EnvironmentProblem(
            f"the native extension rooftune._native cannot be loaded ({error}); build it with `make native`"
        ) from error
    return _native


def isa() -> str:
    """The instruction set of the native kernels: ``portable`` or ``avx2``.

    It is the best that the processor has, or what the environment variable ``ROOFTUNE_ISA`` asks for;
    ``EnvironmentProblem`` where that one is unknown or missing here.
    """
    module = extension()
    try:
        return str(module.isa())
    except RuntimeError as error:
        raise EnvironmentProblem(str(error)) from error


def supported_kinds() -> tuple[str, ...]:
    """The kinds that :func:`peak_flops` accepts with the instruction set in use.

    ``f32_mul_add``: float32, multiply and add as two instructions. ``f32_fma``: float32, fused.
    ``int8_dot``: 8-bit by 8-bit products into 32-bit sums. ``int4_int8_dot``: 4-bit by 8-bit, where eight
    products share one widening to 32 bits (what the 4-bit linear kernels do).
    """
    isa()
    return tuple(extension().supported_kinds())


def read_bandwidth(working_set: int, threads: int, seconds: float) -> float:
    """Bytes per second that ``threads`` threads read together, each its own part of ``working_set`` bytes.

    It is the mean over ``seconds`` after one warming pass, so neighbours on the machine lower it: take the best
    of several short calls for a roof. ``WrongInput`` for less than 1 KiB per thread, no thread or no time.
    """
    isa()
    try:
        return float(extension().read_bandwidth(working_set, threads, seconds))
    except ValueError as error:
        raise WrongInput(str(error)) from error


def peak_flops(kind: str, threads: int, seconds: float) -> float:
    """Operations per second of ``threads`` threads with operands in registers; a multiply-accumulate counts as two.

    It is the mean over ``seconds``; take the best of several short calls for a roof.
    ``WrongInput`` with the reason for a kind that is unknown or that the instruction set in use does not have.
    """
    isa()
    try:
        return float(extension().peak_flops(kind, threads, seconds))
    except ValueError as error:
        raise WrongInput(str(error)) from error
