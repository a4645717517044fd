"""Something that serves: started, configured, observed, stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from rooftune.spec import Configuration
from rooftune.store.ledger import LedgerEntry


@dataclass(frozen=True, slots=True)
class Observation:
    """What the server tells of itself at one moment, in Rooftune's vocabulary (counters only grow; gauges are now).

    counters: generated_tokens, prompt_tokens, prefix_query_tokens, prefix_hit_tokens, preemptions, steps, …
    gauges: running, waiting, kv_used (0 to 1), …
    """

    time_ns: int
    counters: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)


class Server(Protocol):
    """A server that answers at ``url``."""

    url: str
    model: str
    started_by_us: bool

    def resolved(self) -> dict[str, Any] | None:
        """The server's own account of its configuration; None where it gives none."""
        ...

    def observe(self) -> Observation: ...

    def ledger(self, before: Observation, after: Observation) -> tuple[LedgerEntry, ...]:
        """State of each switch over a run, from the counters that moved."""
        ...

    def steps(self, since_ns: int) -> tuple[dict[str, float], ...]:
        """The step log since a monotonic time (same machine), or () where there is none."""
        ...

    def reset_prefix_cache(self) -> bool | None:
        """Clear reusable prefixes. True when proven cleared, None where the server cannot."""
        ...

    def stop(self) -> None:
        """Stop what was started by us, by its own process id; never a server that we did not start."""
        ...


class Runtime(Protocol):
    """How to get a Server for a configuration."""

    name: str

    def switches(self) -> dict[str, str]:
        """Known switches and what each does; a configuration with any other key is an error."""
        ...

    def defaults(self) -> Configuration:
        """What the runtime does when nothing is asked."""
        ...

    def check(self, configuration: Configuration) -> None:
        """Raise WrongInput for an unknown switch or an impossible setting, before anything starts."""
        ...

    def start(self, configuration: Configuration) -> Server: ...


TechniqueTable = dict[str, "Mapping"]


@dataclass(frozen=True, slots=True)
class Mapping:
    """How one technique card reaches this runtime: the switches it sets, or the reason why it cannot."""

    switches: tuple[str, ...] = ()
    reason: str | None = None
    """Set when there is no mapping: why this runtime cannot do it."""
