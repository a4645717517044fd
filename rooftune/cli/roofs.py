"""rooftune roofs: what this machine can do at most, and what that means for the packaged model."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from rooftune.arithmetic import kv_bytes_per_token, weight_bytes
from rooftune.hardware.floor import lowest_tpot, lowest_ttft
from rooftune.hardware.roofs import Roofs, probe
from rooftune.spec import format_quantity

_CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}
_PACKAGED: dict[str, Any] = {
    "name": "smollm2-135m (4-bit, 8-bit head)",
    "weight_bytes": weight_bytes(_CONFIG, "q4_1", embedding="q8_0").per_step,
    "kv_bytes_per_token": kv_bytes_per_token(_CONFIG, 4.0),
    "config": _CONFIG,
}
"""The packaged model as its file stores it: Q4_1 matrices, Q8_0 head, float32 norms; the engine keeps float32 KV."""

_PROMPT = 256


def roofs(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again even if roofs are kept.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Coarse, about 3 s instead of 25 s.")] = False,
) -> None:
    """Measure what this machine can do: bandwidth by working-set size and arithmetic by kind."""
    from rooftune.cli.progress import console_progress

    measured = probe(quick, fresh=fresh, progress=console_progress())
    if as_json:
        print(json.dumps(_as_json(measured), indent=2))
        return
    for line in _words(measured):
        print(line)


def _as_json(measured: Roofs) -> dict[str, Any]:
    step, prompt = lowest_tpot(_PACKAGED, measured), lowest_ttft(_PACKAGED, measured, _PROMPT)
    return {
        **measured.to_json(),
        "age_seconds": measured.age(),
        "packaged_model": {
            "name": _PACKAGED["name"],
            "weight_bytes": _PACKAGED["weight_bytes"],
            "decode_step_seconds": step.seconds,
            "prompt_tokens": _PROMPT,
            "prompt_seconds": prompt.seconds,
            "evidence": "computed",
        },
    }


def _words(measured: Roofs) -> list[str]:
    lines = [
        f"{measured.cpu}, {measured.threads} threads, {measured.isa} kernels, measured here {_age(measured)}"
        f"{' (quick)' if measured.quick else ''}",
        "",
        "Reading memory, by size of what is read over and over",
        *(f"  {_size(p.bytes):>8}  {p.bytes_per_second / 1e9:7.1f} GB/s" for p in measured.bandwidth),
        "",
        "Arithmetic, operands in registers (a multiply-accumulate counts as two)",
        *(f"  {kind:<14} {value / 1e9:7.1f} GFLOP/s" for kind, value in measured.flops.items()),
    ]
    step, prompt = lowest_tpot(_PACKAGED, measured), lowest_ttft(_PACKAGED, measured, _PROMPT)
    lines += [
        "",
        f"For {_PACKAGED['name']} that means at least (computed):",
        f"  {format_quantity(step.seconds, 'time')} a token for one sequence: {step.why}",
        f"  {format_quantity(prompt.seconds, 'time')} to the first token behind {_PROMPT} prompt tokens: {prompt.why}",
    ]
    lines += [f"Note: {note}" for note in measured.notes]
    return lines


def _age(measured: Roofs) -> str:
    age = measured.age()
    if age < 60:
        return "just now"
    for name, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if age >= length:
            count = int(age // length)
            return f"{count} {name}{'s' if count > 1 else ''} ago (--fresh measures again)"
    return ""


def _size(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="roofs")(roofs)
