"""The native linear against PyTorch's float32 linear, on the shapes of SmolLM2-135M.

Both sides run in turn, order drawn anew each round, on the same random weights and activations; PyTorch multiplies
the dequantized matrix. The result is the ratio of times (PyTorch / native, above 1 = native is faster) with a paired
t interval over the rounds' log ratios, so that what disturbs both sides of a round cancels. On a machine that others
use, `--threads 1 --clock cpu` counts the time on the processor alone.

    python benchmarks/kernels/linear.py [--threads 2] [--clock wall] [--rounds 12] [--rows 1 8 32 256] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import torch
from scipy import stats

from rooftune.kernels import native
from rooftune.kernels.contracts import StorageFormat, StoredTensor
from rooftune.kernels.native_cpu import NativeOperators
from rooftune.kernels.reference import ReferenceOperators

SHAPES: list[tuple[StorageFormat, int, int]] = [
    ("q4_1", 576, 576),
    ("q4_1", 192, 576),
    ("q4_1", 1536, 576),
    ("q4_1", 576, 1536),
    ("q8_0", 49152, 576),
]
TYPES = {"q4_1": gguf.GGMLQuantizationType.Q4_1, "q8_0": gguf.GGMLQuantizationType.Q8_0}
SAMPLE_SECONDS = 0.01
"""One side of one round repeats its call for at least this long."""


Clock = Callable[[], float]


def seconds_per_call(call: Callable[[], object], calls: int, clock: Clock) -> float:
    begin = clock()
    for _ in range(calls):
        call()
    return (clock() - begin) / calls


def compare(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int, clock: Clock
) -> dict[str, float]:
    """Geometric mean of the ratio theirs / ours with its 95 % interval, and each side's best time."""
    calls = {}
    for side, call in (("ours", ours), ("theirs", theirs)):
        call()
        calls[side] = max(1, math.ceil(SAMPLE_SECONDS / seconds_per_call(call, 1, clock)))
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        sides = [("ours", ours), ("theirs", theirs)]
        random.shuffle(sides)
        for side, call in sides:
            times[side].append(seconds_per_call(call, calls[side], clock))
    logs = np.log(np.array(times["theirs"]) / np.array(times["ours"]))
    half = stats.t.ppf(0.975, rounds - 1) * logs.std(ddof=1) / math.sqrt(rounds)
    return {
        "ratio": float(np.exp(logs.mean())),
        "low": float(np.exp(logs.mean() - half)),
        "high": float(np.exp(logs.mean() + half)),
        "native_seconds": min(times["ours"]),
        "torch_seconds": min(times["theirs"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32, 256])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        parser.error("an interval needs at least 2 rounds")
    if arguments.clock == "cpu" and arguments.threads != 1:
        parser.error("--clock cpu sees the calling thread only; use it with --threads 1")
    clock = time.thread_time if arguments.clock == "cpu" else time.perf_counter
    ours, theirs = NativeOperators(arguments.threads), ReferenceOperators(arguments.threads)
    print(
        f"isa {native.isa()}, {arguments.threads} threads, {arguments.clock} clock, {arguments.rounds} rounds; best times, ratio of means"
    )
    print(f"{'weight':>18} {'rows':>5} {'native':>17} {'torch f32':>17} {'ratio':>6}  95 % interval")
    results = []
    for format, n, k in SHAPES:
        values = np.random.default_rng(1).normal(size=(n, k)).astype(np.float32)
        weight = StoredTensor("w", format, (n, k), gguf.quantize(values, TYPES[format]).view(np.uint8))
        packed, dense = ours.pack(weight), theirs.pack(weight)
        for rows in arguments.rows:
            x = torch.randn(rows, k)

            def call_ours(x: torch.Tensor = x) -> object:
                return ours.linear(x, packed)  # noqa: B023 - called before the next turn

            def call_theirs(x: torch.Tensor = x) -> object:
                return theirs.linear(x, dense)  # noqa: B023

            result = compare(call_ours, call_theirs, arguments.rounds, clock)
            results.append({"format": format, "n": n, "k": k, "rows": rows, **result})
            operations = 2 * n * k * rows / 1e9
            cells = [
                f"{result[f'{side}_seconds'] * 1e6:8.0f} us {operations / result[f'{side}_seconds']:5.1f}G"
                for side in ("native", "torch")
            ]
            print(
                f"{format + f' {n}x{k}':>18} {rows:>5} {cells[0]} {cells[1]} {result['ratio']:6.2f}"
                f"  [{result['low']:.2f}, {result['high']:.2f}]",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
