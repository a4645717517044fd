"""Known devices: what their makers' datasheets say. Nothing here is measured; a measured roof always goes before it.

Arithmetic is dense (without structured sparsity). Datasheet numbers are rarely reached: expect 60 to 90 % of the
bandwidth and 50 to 80 % of the arithmetic in good kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rooftune.errors import WrongInput

GB, TB, TFLOP = 1e9, 1e12, 1e12


@dataclass(frozen=True, slots=True)
class Device:
    """Datasheet roofs. ``flops`` maps a number type to operations per second (tensor cores where there are any)."""

    name: str
    kind: Literal["gpu", "cpu"]
    memory_bytes: float
    bytes_per_second: float
    flops: dict[str, float]
    watts: float | None
    source: str
    aliases: tuple[str, ...] = ()
    evidence: Literal["datasheet"] = "datasheet"

    def ridge(self, number_type: str = "bf16") -> float:
        """Operations per byte above which arithmetic binds instead of memory."""
        return self.flops[number_type] / self.bytes_per_second


def _gpu(
    name: str,
    memory: float,
    bandwidth: float,
    flops: dict[str, float],
    watts: float,
    source: str,
    *aliases: str,
) -> Device:
    """memory in GB, bandwidth in GB/s, flops in TFLOP/s."""
    peaks = {kind: value * TFLOP for kind, value in flops.items()}
    return Device(name, "gpu", memory * GB, bandwidth * GB, peaks, watts, source, aliases)


def _cpu(
    name: str, channels: int, transfers: float, cores: int, ghz: float, per_cycle: int, source: str
) -> Device:
    """Bandwidth: channels * 8 bytes * transfers (MT/s). Float32: cores * clock * operations per cycle, at base clock."""
    flops = {"f32": cores * ghz * 1e9 * per_cycle}
    return Device(name, "cpu", 0.0, channels * 8 * transfers * 1e6, flops, None, source)


DEVICES: tuple[Device, ...] = (
    _gpu("A100-SXM-40GB", 40, 1555, {"bf16": 312, "f16": 312, "tf32": 156, "f32": 19.5, "int8": 624}, 400,
         "NVIDIA A100 Tensor Core GPU datasheet", "A100-40GB"),
    _gpu("A100-SXM-80GB", 80, 2039, {"bf16": 312, "f16": 312, "tf32": 156, "f32": 19.5, "int8": 624}, 400,
         "NVIDIA A100 Tensor Core GPU datasheet", "A100", "A100-80GB", "A100-SXM4-80GB"),
    _gpu("A100-PCIe-80GB", 80, 1935, {"bf16": 312, "f16": 312, "tf32": 156, "f32": 19.5, "int8": 624}, 300,
         "NVIDIA A100 Tensor Core GPU datasheet"),
    _gpu("H100-SXM-80GB", 80, 3350, {"bf16": 989, "f16": 989, "tf32": 494, "f32": 67, "fp8": 1979, "int8": 1979}, 700,
         "NVIDIA H100 Tensor Core GPU datasheet, dense", "H100", "H100-80GB-HBM3", "H100-SXM"),
    _gpu("H100-PCIe-80GB", 80, 2000, {"bf16": 756, "f16": 756, "tf32": 378, "f32": 51, "fp8": 1513, "int8": 1513}, 350,
         "NVIDIA H100 PCIe product brief, dense"),
    _gpu("H200-SXM-141GB", 141, 4800, {"bf16": 989, "f16": 989, "tf32": 494, "f32": 67, "fp8": 1979, "int8": 1979}, 700,
         "NVIDIA H200 Tensor Core GPU datasheet, dense", "H200", "H200-SXM"),
    _gpu("B200-SXM-180GB", 180, 7700, {"bf16": 2250, "f16": 2250, "fp8": 4500, "int8": 4500, "fp4": 9000}, 1000,
         "NVIDIA DGX B200 datasheet divided by 8 GPUs, dense", "B200", "B200-SXM"),
    _gpu("L4", 24, 300, {"bf16": 121, "f16": 121, "tf32": 60, "f32": 30.3, "fp8": 242, "int8": 242}, 72,
         "NVIDIA L4 Tensor Core GPU datasheet, halved to dense", "L4-24GB"),
    _gpu("L40S", 48, 864, {"bf16": 362, "f16": 362, "tf32": 183, "f32": 91.6, "fp8": 733, "int8": 733}, 350,
         "NVIDIA L40S datasheet, dense", "L40S-48GB"),
    _gpu("RTX-3090", 24, 936, {"bf16": 71, "f16": 142, "f32": 35.6, "int8": 284}, 350,
         "NVIDIA Ampere GA102 whitepaper, dense (f16 with f16 sums)", "GeForce RTX 3090"),
    _gpu("RTX-4090", 24, 1008, {"bf16": 165, "f16": 330, "f32": 82.6, "fp8": 661, "int8": 661}, 450,
         "NVIDIA Ada GPU architecture whitepaper, dense (f16 and fp8 with f16 sums)", "GeForce RTX 4090"),
    _gpu("RTX-5090", 32, 1792, {"bf16": 210, "f16": 419, "f32": 104.8, "fp8": 838, "int8": 838, "fp4": 1676}, 575,
         "NVIDIA RTX Blackwell GPU architecture whitepaper, dense (f16 and fp8 with f16 sums)", "GeForce RTX 5090"),
    _gpu("MI300X", 192, 5300, {"bf16": 1307, "f16": 1307, "tf32": 654, "f32": 163, "fp8": 2615, "int8": 2615}, 750,
         "AMD Instinct MI300X datasheet, dense", "MI300X-192GB"),
    _cpu("Xeon-Platinum-8480+", 8, 4800, 56, 2.0, 64,
         "Intel ARK: 8 channels DDR5-4800, 56 cores, 2.0 GHz base; two 512-bit FMA units"),
    _cpu("EPYC-9654", 12, 4800, 96, 2.4, 32,
         "AMD EPYC 9654 product page: 12 channels DDR5-4800, 96 cores, 2.4 GHz base; two 256-bit FMA units"),
    _cpu("EPYC-7763", 8, 3200, 64, 2.45, 32,
         "AMD EPYC 7763 product page: 8 channels DDR4-3200, 64 cores, 2.45 GHz base; two 256-bit FMA units"),
    _cpu("Core-i9-13900K", 2, 5600, 8, 3.0, 32,
         "Intel ARK: 2 channels DDR5-5600; the 8 performance cores at 3.0 GHz base only"),
    _cpu("Ryzen-9-7950X", 2, 5200, 16, 4.5, 32,
         "AMD Ryzen 9 7950X product page: 2 channels DDR5-5200, 16 cores, 4.5 GHz base; two 256-bit FMA units"),
)  # fmt: skip


def device(name: str) -> Device:
    """A device by name or alias, case and separators aside; WrongInput naming the nearest for one that is not known."""
    wanted = _plain(name)
    for known in DEVICES:
        if wanted in (_plain(known.name), *(_plain(alias) for alias in known.aliases)):
            return known
    from rooftune.spec.nearest import nearest

    raise WrongInput(f"unknown device '{name}'{nearest(name, [known.name for known in DEVICES])}")


def _plain(name: str) -> str:
    lowered = name.lower()
    for maker in ("nvidia", "amd", "instinct", "geforce"):
        lowered = lowered.replace(maker, "")
    return "".join(letter for letter in lowered if letter.isalnum() or letter == "+")
