"""Roofs of this machine, measured: bytes read per second by working-set size, operations per second by kind.

A roof is the best of several short readings: neighbours on the machine can only lower a reading. Roofs are kept in the
user's cache folder, one file a machine, with their age; between runs a single small reading (:func:`reprobe`) tells
whether the machine is still what it was.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.hardware.machine import fingerprint, machine, usable_threads
from rooftune.progress import Progress, Silent

KIB, MIB = 1 << 10, 1 << 20
FULL_SIZES = tuple(size * MIB for size in (1, 2, 4, 8, 16, 32, 64, 128, 256))
QUICK_SIZES = (1 * MIB, 4 * MIB, 16 * MIB, 64 * MIB)
_SMALLEST = 256 * KIB
_FORMAT = 1
"""Of the cached file; another number is measured afresh."""
_REPROBE_SIZE = 32 * MIB


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """What reading ``bytes`` over and over reached."""

    bytes: int
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Roofs:
    """Measured roofs. ``bandwidth`` ascends by working-set size; ``flops`` maps a kind of operation (see
    `rooftune.kernels.native.supported_kinds`) to operations per second of all ``threads`` together."""

    bandwidth: tuple[Bandwidth, ...]
    flops: dict[str, float]
    threads: int
    isa: str
    cpu: str
    measured_at: str
    """UTC, ISO 8601."""
    quick: bool = False
    seconds: float = 0.0
    """What the measurement took."""
    evidence: str = "measured here"
    notes: tuple[str, ...] = field(default=())

    def bandwidth_at(self, working_set: float) -> float:
        """Bytes per second at a working set, linear in the logarithm of its size; held constant beyond both ends."""
        points = self.bandwidth
        if working_set <= points[0].bytes:
            return points[0].bytes_per_second
        for left, right in pairwise(points):
            if working_set <= right.bytes:
                share = math.log(working_set / left.bytes) / math.log(right.bytes / left.bytes)
                return left.bytes_per_second + share * (right.bytes_per_second - left.bytes_per_second)
        return points[-1].bytes_per_second

    def peak(self, kinds: Sequence[str] | None = None) -> float:
        """Operations per second: the best of ``kinds`` that were measured; None: the best of all.

        WrongInput where none of them was measured.
        """
        found = [value for kind, value in self.flops.items() if kinds is None or kind in kinds]
        if not found:
            raise WrongInput(
                f"no roof was measured for {', '.join(kinds or ())}; measured: {', '.join(self.flops)}"
            )
        return max(found)

    def float32_peak(self) -> float:
        """Operations per second in float32, the roof of MFU for kernels that compute in float32."""
        return self.peak(("f32_fma", "f32_mul_add"))

    def age(self) -> float:
        """Seconds since the measurement."""
        return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(self.measured_at)).total_seconds())

    def to_json(self) -> dict[str, Any]:
        return {
            "bandwidth": [{"bytes": p.bytes, "bytes_per_second": p.bytes_per_second} for p in self.bandwidth],
            "flops": dict(self.flops),
            "threads": self.threads,
            "isa": self.isa,
            "cpu": self.cpu,
            "measured_at": self.measured_at,
            "quick": self.quick,
            "seconds": self.seconds,
            "evidence": self.evidence,
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Roofs:
        """Read what ``to_json`` wrote; WrongInput where a field is missing or impossible."""
        try:
            points = tuple(
                Bandwidth(int(p["bytes"]), float(p["bytes_per_second"])) for p in values["bandwidth"]
            )
            roofs = cls(
                bandwidth=points,
                flops={str(kind): float(value) for kind, value in values["flops"].items()},
                threads=int(values["threads"]),
                isa=str(values["isa"]),
                cpu=str(values["cpu"]),
                measured_at=str(values["measured_at"]),
                quick=bool(values.get("quick", False)),
                seconds=float(values.get("seconds", 0.0)),
                evidence=str(values.get("evidence", "measured here")),
                notes=tuple(str(note) for note in values.get("notes", ())),
            )
            datetime.fromisoformat(roofs.measured_at)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise WrongInput(f"roofs: cannot be read ({type(problem).__name__}: {problem})") from None
        sizes = [p.bytes for p in points]
        if not points or not roofs.flops or sizes != sorted(set(sizes)):
            raise WrongInput(
                "roofs: need bandwidth readings of ascending size and at least one kind of operation"
            )
        if min([*(p.bytes_per_second for p in points), *roofs.flops.values()]) <= 0:
            raise WrongInput("roofs: every reading must be above 0")
        return roofs


def probe(quick: bool = False, *, fresh: bool = False, progress: Progress | None = None) -> Roofs:
    """Roofs of this machine: from the cache where it has them, else measured (quick about 3 s, full under 30 s) and kept.

    A quick call takes a full measurement from the cache, never the other way round. ``fresh`` measures in any case.
    EnvironmentProblem where the native extension is not built.
    """
    from rooftune.kernels import native

    described = machine()
    isa = native.isa()
    file = _cache_file(fingerprint(described, isa))
    if not fresh:
        kept = _read(file)
        if kept is not None and (quick or not kept.quick):
            return kept
    roofs = _measure(quick, described.cpu, isa, described.memory_available, progress or Silent())
    _write(file, roofs)
    return roofs


def reprobe(quick: bool = True) -> dict[str, float]:
    """One small reading between runs (under 1 s; ``quick`` False reads three times): what the machine gives right now.

    Keys: working_set (bytes), bytes_per_second, flop_per_second (float32), seconds. Compare with :func:`drift`.
    """
    from rooftune.kernels import native

    begin = time.monotonic()
    threads = usable_threads()
    kind = next(k for k in ("f32_fma", "f32_mul_add") if k in native.supported_kinds())
    readings = 1 if quick else 3
    bandwidth = max(native.read_bandwidth(_REPROBE_SIZE, threads, 0.05) for _ in range(readings))
    flops = max(native.peak_flops(kind, threads, 0.05) for _ in range(readings))
    return {
        "working_set": float(_REPROBE_SIZE),
        "bytes_per_second": bandwidth,
        "flop_per_second": flops,
        "seconds": time.monotonic() - begin,
    }


def drift(roofs: Roofs, reading: Mapping[str, float]) -> dict[str, float]:
    """A reprobe's reading as a share of the roofs, by ``bandwidth`` and ``flops``; 1 means unchanged, below it something
    else uses the machine."""
    return {
        "bandwidth": reading["bytes_per_second"] / roofs.bandwidth_at(reading["working_set"]),
        "flops": reading["flop_per_second"] / roofs.float32_peak(),
    }


def _measure(quick: bool, cpu: str, isa: str, memory: int, progress: Progress) -> Roofs:
    from rooftune.kernels import native

    begin = time.monotonic()
    threads = usable_threads()
    smallest = max(_SMALLEST, threads * 64 * KIB)
    sizes = [smallest, *(size for size in (QUICK_SIZES if quick else FULL_SIZES) if size > smallest)]
    held = [size for size in sizes if size <= memory // 4]
    notes = (
        [f"working sets above {held[-1] // MIB} MiB left out: too little free memory"]
        if held != sizes
        else []
    )
    kinds = native.supported_kinds()
    progress.begin("measuring the machine's roofs", 3.0 if quick else 25.0)
    stages = len(held) + len(kinds)
    points = []
    slot = 0.35 if quick else 1.4
    for done, size in enumerate(held):
        points.append(Bandwidth(size, _best(partial(native.read_bandwidth, size, threads, 0.05), slot)))
        progress.advance((done + 1) / stages)
    flops = {}
    for done, kind in enumerate(kinds):
        flops[kind] = _best(partial(native.peak_flops, kind, threads, 0.05), slot)
        progress.advance((len(held) + done + 1) / stages)
    progress.end()
    return Roofs(
        bandwidth=tuple(points),
        flops=flops,
        threads=threads,
        isa=isa,
        cpu=cpu,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        quick=quick,
        seconds=round(time.monotonic() - begin, 2),
        notes=tuple(notes),
    )


def _best(read: Callable[[], float], seconds: float) -> float:
    """The best of as many readings as fit into ``seconds``, at least one."""
    end = time.monotonic() + seconds
    best = read()
    while time.monotonic() < end:
        best = max(best, read())
    return best


def _cache_file(name: str) -> Path:
    from rooftune.engine.model.catalogue import cache_folder

    return cache_folder() / "roofs" / f"{name}.json"


def _read(file: Path) -> Roofs | None:
    """The kept roofs, or None where there are none that this version can read."""
    try:
        values = json.loads(file.read_text())
        return Roofs.from_json(values["roofs"]) if values["format"] == _FORMAT else None
    except (OSError, ValueError, KeyError, TypeError, WrongInput):
        return None


def _write(file: Path, roofs: Roofs) -> None:
    """Keep them whole or not at all: a half-written file is never seen under the name."""
    part = file.with_suffix(".part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps({"format": _FORMAT, "roofs": roofs.to_json()}))
        part.replace(file)
    except OSError as problem:
        raise EnvironmentProblem(
            f"{file.parent}: roofs cannot be kept there ({problem.strerror})"
        ) from problem
