"""From a spec to the runtime that serves it."""

from __future__ import annotations

from collections.abc import Callable

from rooftune.runtimes.contract import Runtime, TechniqueTable
from rooftune.spec import Spec


def _embedded(spec: Spec) -> Runtime:
    from rooftune.runtimes.embedded.runtime import EmbeddedRuntime

    return EmbeddedRuntime(spec.model, spec.runtime.options)


def _url(spec: Spec) -> Runtime:
    from rooftune.runtimes.url.runtime import UrlRuntime

    return UrlRuntime(spec.model, spec.runtime.options)


_RUNTIMES: dict[str, Callable[[Spec], Runtime]] = {"embedded": _embedded, "url": _url}


def runtime_for(spec: Spec) -> Runtime:
    """The runtime that a spec names, with its options checked. Raises WrongInput."""
    return _RUNTIMES[spec.runtime.name](spec)


def technique_table(runtime: str) -> TechniqueTable:
    """How each technique reaches a runtime, by the runtime's name."""
    if runtime == "embedded":
        from rooftune.runtimes.embedded.technique_table import TECHNIQUES

        return TECHNIQUES
    from rooftune.runtimes.url.technique_table import TECHNIQUES as ADVICE_ONLY

    return ADVICE_ONLY
