"""This machine as the operating system tells it: processor, cores, memory, caches, and how much of it is really ours."""

from __future__ import annotations

import hashlib
import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

_TELLING_FLAGS = (
    "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx_vnni", "avx512_bf16",
    "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "asimd", "asimddp", "i8mm", "bf16", "sve",
)  # fmt: skip
"""Processor flags that decide which kernels can run."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Sizes in bytes; None where the system does not say."""

    cpu: str
    threads: int
    """Hardware threads that this process may use."""
    cores: int | None
    quota: float | None
    """Processors granted by a container's quota; None without one."""
    memory: int
    memory_available: int
    caches: dict[str, int]
    """Level ("L1d", "L2", "L3") to the size of one instance."""
    numa_nodes: int | None
    flags: tuple[str, ...]
    system: str
    virtual: bool | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def machine() -> Machine:
    """Read this machine's description."""
    info = _cpu_info()
    flags = set(info.get("flags", info.get("Features", "")).split())
    memory = psutil.virtual_memory()
    return Machine(
        cpu=info.get("model name") or platform.processor() or platform.machine(),
        threads=usable_threads(),
        cores=psutil.cpu_count(logical=False),
        quota=_quota(),
        memory=memory.total,
        memory_available=memory.available,
        caches=_caches(),
        numa_nodes=len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None,
        flags=tuple(name for name in _TELLING_FLAGS if name in flags),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        virtual=("hypervisor" in flags) if flags else None,
    )


def usable_threads() -> int:
    """Hardware threads that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def fingerprint(described: Machine, *more: str) -> str:
    """A short name for all that a measured roof depends on; two machines of one kind share it."""
    parts = (described.cpu, described.threads, described.cores, described.quota, described.memory >> 30,
             sorted(described.caches.items()), described.flags, more)  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def steal_share(seconds: float = 0.2) -> float | None:
    """Share of processor time that the hypervisor gave to others during ``seconds``; None where it is not told."""
    before = _cpu_times()
    if before is None:
        return None
    time.sleep(seconds)
    after = _cpu_times()
    if after is None or sum(after) <= sum(before):
        return None
    return (after[7] - before[7]) / (sum(after) - sum(before))


def _cpu_times() -> list[int] | None:
    """user, nice, system, idle, iowait, irq, softirq, steal (ticks)."""
    try:
        first = Path("/proc/stat").read_text().splitlines()[0].split()
    except OSError:
        return None
    return [int(value) for value in first[1:9]] if len(first) >= 9 else None


def _cpu_info() -> dict[str, str]:
    """The first processor's entry of /proc/cpuinfo."""
    found: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() and key.strip() not in found:
                found[key.strip()] = value.strip()
    except OSError:
        pass
    return found


def _caches() -> dict[str, int]:
    sizes: dict[str, int] = {}
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        if kind != "Instruction" and size[-1:] in units:
            sizes[f"L{level}" + ("d" if kind == "Data" else "")] = int(size[:-1]) * units[size[-1]]
    return sizes


def _quota() -> float | None:
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        return None
