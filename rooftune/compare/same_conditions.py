"""Were both arms measured under the same conditions, and did the change reach the server?

A comparison may be a measurement of something else: a change that was ignored, other prompts, shorter answers, a warm
cache, errors that end early. Each such case is named; those that would make the numbers mean something else are invalid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rooftune.store.run import Run

Kind = Literal[
    "config_noop",
    "config_extra",
    "schedule",
    "output_lengths",
    "prompt_tokens",
    "errors",
    "cache_state",
    "pool",
    "model",
    "environment",
    "gates",
    "slo",
]

OUTPUT_LENGTH_LIMIT = 0.10
"""MLPerf inference accepts generation lengths within 90 to 110 % of the reference."""
_OUTPUT_LENGTH_NOTICE = 0.02
_PROMPT_LIMIT = 0.01
_ERROR_LIMIT = 0.02
_CACHE_LIMIT = 0.05
_WARM_LIMIT = 0.25
_SWITCHES_OF_THE_CACHE = ("prefix_cache", "enable_prefix_caching")
_SWITCHES_OF_THE_POOL = ("pool_tokens", "page_size", "num_gpu_blocks", "gpu_memory_utilization")
# Facts that a server tells of itself which are not settings: identity of the process, counts, times.
_NOT_SETTINGS = frozenset(
    {"pid", "port", "url", "started_at", "uptime", "host", "load_seconds", "weight_bytes", "head_bytes", "kernels",
     "version", "time", "counters", "memory", "operators", "start_seconds"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Problem:
    kind: Kind
    invalid: bool
    """True: the comparison must not be used. False: worth saying."""
    text: str


@dataclass(frozen=True, slots=True)
class Conditions:
    problems: tuple[Problem, ...]

    @property
    def invalid(self) -> tuple[str, ...]:
        return tuple(f"{p.kind}: {p.text}" for p in self.problems if p.invalid)

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(p.text for p in self.problems if not p.invalid)

    @property
    def same(self) -> bool:
        return not self.invalid


def compare_conditions(baseline: Run, changed: Run, change: Mapping[str, Any] | None = None) -> Conditions:
    """Compare two runs. ``change``: the switches that were asked to differ, with their new settings; empty for A/A;
    None where it is not known (then any difference is only told)."""
    problems = [
        *_gates(baseline, changed),
        *_configuration(baseline, changed, change),
        *_schedule(baseline, changed),
        *_lengths(baseline, changed),
        *_errors(baseline, changed),
        *_cache(baseline, changed, change or {}),
        *_surroundings(baseline, changed),
    ]
    return Conditions(tuple(problems))


def settings_of(resolved: Mapping[str, Any] | None) -> dict[str, Any]:
    """Leaves of a resolved configuration by dotted path, without what is no setting."""
    return {} if resolved is None else dict(_leaves(resolved, ""))


def _leaves(value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        if key in _NOT_SETTINGS:
            continue
        path = f"{prefix}{key}"
        if isinstance(item, Mapping):
            yield from _leaves(item, f"{path}.")
        else:
            yield path, item


def _configuration(baseline: Run, changed: Run, change: Mapping[str, Any] | None) -> Iterator[Problem]:
    before, after = settings_of(baseline.resolved), settings_of(changed.resolved)
    if not before or not after:
        if change:
            yield Problem(
                "config_noop",
                False,
                "the server gives no account of its configuration: the change is not proven on",
            )
        return
    differing = sorted(p for p in before.keys() | after.keys() if before.get(p) != after.get(p))
    if change is None:
        if not differing:
            yield Problem("config_noop", True, "both arms ran with the same resolved configuration")
        return
    for switch, wanted in change.items():
        paths = [p for p in after if p == switch or p.endswith(f".{switch}")]
        found = [after[p] for p in paths]
        if paths and not any(_equal(value, wanted) for value in found):
            yield Problem(
                "config_noop", True, f"{switch} was asked to be {wanted}, the server runs with {found[0]}"
            )
        elif paths and not any(p in differing for p in paths):
            yield Problem("config_noop", True, f"{switch} is {found[0]} on both arms: the change did nothing")
        elif not paths:
            yield Problem("config_noop", False, f"the server does not tell its {switch}: not proven on")
        entry = next((e for e in changed.ledger if e.switch == switch), None)
        off = entry is not None and entry.active is False and wanted not in (False, "none", "off", None)
        if entry is not None and off:
            yield Problem("config_noop", True, f"{switch} was asked for but was not on: {entry.reason}")
    extra = [p for p in differing if p.rsplit(".", 1)[-1] not in change]
    if extra:
        shown = ", ".join(f"{p}: {before.get(p)} -> {after.get(p)}" for p in extra[:3])
        # A setting that follows from the change is normal; one that was not asked for cannot be told apart from it here.
        yield Problem("config_extra", not change, f"more differs than was asked: {shown}")


def _equal(value: Any, wanted: Any) -> bool:
    if isinstance(value, bool) or isinstance(wanted, bool):
        return str(value).lower() == str(wanted).lower()
    if isinstance(value, int | float) and isinstance(wanted, int | float):
        return float(value) == float(wanted)
    return bool(value == wanted)


def _gates(baseline: Run, changed: Run) -> Iterator[Problem]:
    for name, run in (("baseline", baseline), ("changed", changed)):
        if not run.complete:
            yield Problem(
                "gates", True, f"the {name} run is not complete: {run.incomplete_reason or 'unknown reason'}"
            )
        for gate in run.gates:
            if gate.ok is False:
                yield Problem("gates", True, f"the {name} run failed its gate {gate.name}: {gate.reason}")


def _schedule(baseline: Run, changed: Run) -> Iterator[Problem]:
    if baseline.schedule_hash != changed.schedule_hash:
        yield Problem(
            "schedule", True, "the arms had different schedules (prompts, lengths or arrival times)"
        )
    if baseline.slo != changed.slo:
        yield Problem("slo", False, "the arms were judged by different bounds per request")


def _lengths(baseline: Run, changed: Run) -> Iterator[Problem]:
    before = {r.index: r for r in baseline.records if r.succeeded}
    pairs = [(before[r.index], r) for r in changed.records if r.succeeded and r.index in before]
    outputs = [(b.output_tokens, c.output_tokens) for b, c in pairs if b.output_tokens and c.output_tokens]
    if outputs:
        ratio = sum(c for _, c in outputs) / sum(b for b, _ in outputs)
        if abs(ratio - 1.0) > OUTPUT_LENGTH_LIMIT:
            word = "shorter" if ratio < 1 else "longer"
            yield Problem(
                "output_lengths",
                True,
                f"answers of the changed arm are {abs(ratio - 1):.0%} {word} on the same requests",
            )
        elif abs(ratio - 1.0) > _OUTPUT_LENGTH_NOTICE:
            yield Problem(
                "output_lengths", False, f"output lengths differ by {ratio - 1:+.1%} on the same requests"
            )
    prompts = [(b.prompt_tokens, c.prompt_tokens) for b, c in pairs if b.prompt_tokens and c.prompt_tokens]
    if prompts:
        ratio = sum(c for _, c in prompts) / sum(b for b, _ in prompts)
        if abs(ratio - 1.0) > _PROMPT_LIMIT:
            yield Problem(
                "prompt_tokens", True, f"prompt tokens differ by {ratio - 1:+.1%} on the same requests"
            )


def _errors(baseline: Run, changed: Run) -> Iterator[Problem]:
    rates = [_error_rate(baseline), _error_rate(changed)]
    if None in rates:
        return
    before, after = float(rates[0] or 0.0), float(rates[1] or 0.0)
    if abs(after - before) > _ERROR_LIMIT and _beyond_chance(before, after, baseline, changed):
        yield Problem(
            "errors",
            True,
            f"failed requests {before:.1%} against {after:.1%}: latencies of survivors mislead",
        )
    elif after != before:
        yield Problem("errors", False, f"failed requests {before:.1%} against {after:.1%}")


def _error_rate(run: Run) -> float | None:
    return 1.0 - sum(r.succeeded for r in run.records) / len(run.records) if run.records else None


def _beyond_chance(before: float, after: float, baseline: Run, changed: Run) -> bool:
    """Two-sample normal bound on the difference of two shares, 2.6 standard errors (99 %)."""
    n, m = len(baseline.records), len(changed.records)
    pooled = (before * n + after * m) / (n + m)
    error = float(np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m)))
    return abs(after - before) > 2.6 * error


def _cache(baseline: Run, changed: Run, change: Mapping[str, Any]) -> Iterator[Problem]:
    shares = [_cached_share(baseline), _cached_share(changed)]
    caches = any(s in change for s in _SWITCHES_OF_THE_CACHE)
    if shares[0] is not None and shares[1] is not None and not caches:
        apart = abs(shares[1] - shares[0])
        if apart > _CACHE_LIMIT:
            # Other switches move hits a little (who is in flight when); a warm arm moves them a lot.
            yield Problem(
                "cache_state",
                not change or apart > _WARM_LIMIT,
                f"{shares[0]:.0%} of prompt tokens came from the cache in one arm and {shares[1]:.0%} in the other: "
                "one of them may have been warm",
            )
    pools = [
        [v for k, v in settings_of(run.resolved).items() if k.rsplit(".", 1)[-1] == "pool_tokens"]
        for run in (baseline, changed)
    ]
    if all(pools) and pools[0] != pools[1] and not any(s in change for s in _SWITCHES_OF_THE_POOL):
        yield Problem("pool", True, f"the KV pools differ: {pools[0][0]} and {pools[1][0]} tokens")


def _cached_share(run: Run) -> float | None:
    known = [
        (r.cached_tokens, r.prompt_tokens)
        for r in run.records
        if r.cached_tokens is not None and r.prompt_tokens
    ]
    total = sum(p for _, p in known)
    return sum(c for c, _ in known) / total if total else None


def _surroundings(baseline: Run, changed: Run) -> Iterator[Problem]:
    if baseline.target.get("model") != changed.target.get("model"):
        yield Problem(
            "model",
            True,
            f"different models: {baseline.target.get('model')} and {changed.target.get('model')}",
        )
    for key in ("machine", "cpu", "device", "gpu", "host"):
        before, after = baseline.environment.get(key), changed.environment.get(key)
        if before is not None and after is not None and before != after:
            yield Problem(
                "environment", True, f"the arms ran on different machines ({key}: {before} and {after})"
            )
            return
