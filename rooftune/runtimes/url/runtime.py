"""A server that is there already."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.runtimes.contract import Observation
from rooftune.runtimes.embedded.server import entry_between
from rooftune.runtimes.http import HttpBase, checked_url
from rooftune.runtimes.url.metrics import read_metrics
from rooftune.spec import Configuration
from rooftune.spec.nearest import nearest
from rooftune.store.ledger import LedgerEntry

_OPTIONS = ("base_url", "model", "api_key_env", "metrics_url")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class UrlServer:
    """Implements ``Server`` for a server of others: observed through ``/metrics`` where it has them."""

    started_by_us = False

    def __init__(self, http: HttpBase, model: str, metrics: HttpBase | None = None) -> None:
        self.url = http.url
        self.model = model
        self.headers = dict(http.headers)
        """To be sent with every request (API key); never printed."""
        self._http = http
        self._metrics = metrics
        self._own_kind = _answers(http, "/rooftune/config")

    def resolved(self) -> dict[str, Any] | None:
        return dict(self._http.get_json("/rooftune/config")) if self._own_kind else None

    def observe(self) -> Observation:
        """Counters and gauges; empty where the server has no metrics that are known here."""
        if self._metrics is not None:
            answer = self._metrics.get("")
        elif self._own_kind:
            raw = self._http.get_json("/rooftune/stats")
            return Observation(raw["time_ns"], raw["counters"], raw["gauges"])
        else:
            answer = self._http.get("/metrics")
        now = time.monotonic_ns()
        if answer.status != 200:
            return Observation(now)
        try:
            counters, gauges = read_metrics(answer.body.decode("utf-8", errors="replace"))
        except ValueError:  # something else than Prometheus' text lives at that address
            return Observation(now)
        return Observation(now, counters, gauges)

    def ledger(self, before: Observation, after: Observation) -> tuple[LedgerEntry, ...]:
        if self._own_kind:
            raw = self._http.get_json("/rooftune/techniques")["techniques"]
            return tuple(entry_between(entry, before, after) for entry in raw)
        counter = "prefix_hit_tokens"
        if counter not in after.counters or counter not in before.counters:
            return ()
        moved = after.counters[counter] - before.counters[counter]
        reason = f"{moved:.0f} prompt tokens came from the prefix cache"
        # What was asked of a server that others configure is not known.
        return (LedgerEntry("prefix_cache", None, moved > 0 or None, reason, counter, moved),)

    def steps(self, since_ns: int) -> tuple[dict[str, float], ...]:
        """Only from a Rooftune server on this machine: its clock is ours."""
        if not self._own_kind or urlsplit(self.url).hostname not in _LOOPBACK:
            return ()
        return tuple(self._http.get_json(f"/rooftune/steps?since_ns={since_ns}")["steps"])

    def reset_prefix_cache(self) -> bool | None:
        """None: the cache belongs to the server's owner and its other clients."""
        return None

    def stop(self) -> None:
        """Nothing: it was not started here."""


class UrlRuntime:
    """Implements ``Runtime``: ``start`` only finds the server and its model."""

    name = "url"

    def __init__(self, model: str | None, options: Mapping[str, Any]) -> None:
        """options: base_url; model (its name at the server); api_key_env (variable with the key); metrics_url."""
        for name in options:
            if name not in _OPTIONS:
                raise WrongInput(f"runtime.options: unknown key '{name}'{nearest(str(name), _OPTIONS)}")
        if not options.get("base_url"):
            raise WrongInput("runtime.options: 'base_url' is missing, e.g. {base_url: http://127.0.0.1:8000}")
        asked = options.get("model")
        self._asked = None if asked is None else str(asked)
        self._model = model
        url = checked_url(str(options["base_url"]), "runtime.options.base_url")
        headers = {}
        if variable := options.get("api_key_env"):
            key = os.environ.get(str(variable))
            if not key:
                raise WrongInput(f"runtime.options.api_key_env: the variable {variable} is not set")
            headers["authorization"] = f"Bearer {key}"
        self._http = HttpBase(url, headers)
        metrics = options.get("metrics_url")
        # The key is for the server alone: metrics may live elsewhere.
        self._metrics = (
            None if metrics is None else HttpBase(checked_url(str(metrics), "runtime.options.metrics_url"))
        )

    def switches(self) -> dict[str, str]:
        return {}

    def defaults(self) -> Configuration:
        return {}

    def check(self, configuration: Configuration) -> None:
        if configuration:
            raise WrongInput(
                f"switch '{next(iter(configuration))}': a server at a URL is not configured by Rooftune; "
                "take the techniques out of the spec"
            )

    def start(self, configuration: Configuration) -> UrlServer:
        """Raises EnvironmentProblem when the server cannot be reached, WrongInput when the model is not clear."""
        self.check(configuration)
        return UrlServer(self._http, self._find_model(), self._metrics)

    def _find_model(self) -> str:
        answer = self._http.get("/v1/models")
        if answer.status == 404:
            if self._asked:
                return self._asked
            raise WrongInput(f"{self._http.url} does not list its models; name one in runtime.options.model")
        listed = self._http.json("/v1/models", answer)
        try:
            names = [str(entry["id"]) for entry in listed["data"]]
        except (TypeError, KeyError):
            raise EnvironmentProblem(
                f"{self._http.url}/v1/models is not a list of models; is this an LLM server?"
            ) from None
        if self._asked is not None:
            if self._asked not in names:
                raise WrongInput(
                    f"{self._http.url} has no model '{self._asked}'{nearest(self._asked, names)}"
                )
            return self._asked
        if self._model in names:
            return str(self._model)
        if len(names) != 1:
            raise WrongInput(
                f"{self._http.url} has {len(names)} models ({', '.join(names[:8])}); name one in runtime.options.model"
            )
        return names[0]


def _answers(http: HttpBase, path: str) -> bool:
    answer = http.get(path)
    if answer.status != 200:
        return False
    try:
        return isinstance(answer.json(), dict)
    except ValueError:
        return False
