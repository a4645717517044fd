"""What physics allows for this model on this machine: seconds to read weights and KV, and to compute a token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rooftune.errors import RooftuneError
from rooftune.hardware.roofs import Roofs


@dataclass(frozen=True, slots=True)
class RoofFacts:
    """Floors in seconds from the probed roofs; None fields carry their reason in ``missing``."""

    weights: float | None
    """Reading all weights of a step once."""
    kv_per_token: float | None
    """Reading one cached token's keys and values, all layers."""
    compute_per_row: float | None
    """Arithmetic of one decode row (or prompt token with the head) at the probed peak."""
    compute_per_prefill_token: float | None
    missing: tuple[str, ...]

    def decode_floor(self, rows: float, context_tokens: float) -> float | None:
        """Roofline of a decode step: the larger of what its bytes and its arithmetic need."""
        moved, computed = self.bytes(context_tokens), self.compute(rows)
        if moved is None:
            return None
        return moved if computed is None else max(moved, computed)

    def bytes(self, context_tokens: float) -> float | None:
        if self.weights is None:
            return None
        return self.weights + (self.kv_per_token or 0.0) * context_tokens

    def compute(self, rows: float) -> float | None:
        return None if self.compute_per_row is None else self.compute_per_row * rows


def roof_facts(roofs: Mapping[str, Any] | None, model: Mapping[str, Any] | None) -> RoofFacts:
    """From a run's ``roofs`` and the served model's own description."""
    missing = []
    if roofs is None:
        missing.append("roofs of the server's device (run `rooftune roofs`, or name the device)")
    if model is None or model.get("weight_bytes") is None:
        missing.append("the served model's size (weight bytes read per step)")
    if roofs is None or model is None:
        return RoofFacts(None, None, None, None, tuple(missing))
    try:
        measured = Roofs.from_json(roofs)
        peak: float | None = measured.float32_peak() if _has_float32(measured) else measured.peak()
    except RooftuneError as problem:
        return RoofFacts(None, None, None, None, (*missing, str(problem)))
    weight_bytes = model.get("weight_bytes")
    bandwidth = measured.bandwidth_at(float(weight_bytes)) if weight_bytes else None
    kv = model.get("kv_bytes_per_token")
    row, prefill = _flops(model)
    return RoofFacts(
        weights=None if bandwidth is None or not weight_bytes else float(weight_bytes) / bandwidth,
        kv_per_token=None if bandwidth is None or kv is None else float(kv) / bandwidth,
        compute_per_row=None if row is None or peak is None else row / peak,
        compute_per_prefill_token=None if prefill is None or peak is None else prefill / peak,
        missing=tuple(missing),
    )


def _has_float32(roofs: Roofs) -> bool:
    return any(kind in roofs.flops for kind in ("f32_fma", "f32_mul_add"))


def _flops(model: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Operations of a decode row and of a prompt token: from the configuration, else 2 per parameter."""
    config = model.get("config")
    if isinstance(config, Mapping):
        from rooftune.arithmetic import decode_flops, prefill_flops

        try:
            return decode_flops(config, 0), prefill_flops(config, 256, sampled=1) / 256
        except (RooftuneError, KeyError, ValueError, TypeError):
            pass
    parameters = model.get("parameters")
    if isinstance(parameters, int | float) and parameters > 0:
        return 2.0 * parameters, 2.0 * parameters
    return None, None
