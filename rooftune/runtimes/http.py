"""Small JSON requests to a server, with errors that say what to do. Standard library only."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from rooftune.errors import EnvironmentProblem, WrongInput

_LARGEST_ANSWER = 64 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes

    def json(self) -> Any:
        """Raises ValueError where the body is no JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class HttpBase:
    """A server's root address; paths are added to it. ``headers`` may hold a key and is never printed."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 10.0

    def get(self, path: str) -> Answer:
        """Raises EnvironmentProblem when the server cannot be reached."""
        return self._request("GET", path)

    def post(self, path: str) -> Answer:
        return self._request("POST", path)

    def get_json(self, path: str) -> Any:
        """The answer's JSON. Raises EnvironmentProblem for any other outcome."""
        return self.json(path, self.get(path))

    def post_json(self, path: str) -> Any:
        return self.json(path, self.post(path))

    def json(self, path: str, answer: Answer) -> Any:
        """The JSON of an answer to ``path``, if it is one."""
        if answer.status in (401, 403):
            raise EnvironmentProblem(f"{self.url} refused the API key (status {answer.status}); check it")
        if answer.status != 200:
            raise EnvironmentProblem(f"{self.url}{path} answered with status {answer.status}")
        try:
            return answer.json()
        except ValueError:
            raise EnvironmentProblem(
                f"{self.url}{path} did not answer with JSON; is this an LLM server?"
            ) from None

    def _request(self, method: str, path: str) -> Answer:
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self.timeout)
        try:
            connection.request(method, parts.path + path, headers={"accept": "*/*", **self.headers})
            answer = connection.getresponse()
            body = answer.read(_LARGEST_ANSWER + 1)
        except (OSError, http.client.HTTPException) as problem:
            raise EnvironmentProblem(
                f"cannot reach {self.url} ({_reason(problem)}); is the server up?"
            ) from None
        finally:
            connection.close()
        if len(body) > _LARGEST_ANSWER:
            raise EnvironmentProblem(f"{self.url}{path} answered with more than 64 MiB")
        return Answer(answer.status, body)


def _reason(problem: Exception) -> str:
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    if isinstance(problem, socket.gaierror):
        return "unknown host"
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror.lower()
    return type(problem).__name__


def checked_url(url: str, where: str) -> str:
    """A server's root address without ``/v1`` and trailing slashes. Raises WrongInput."""
    parts = urlsplit(url)
    try:
        port_ok = parts.port is None or parts.port > 0
    except ValueError:
        port_ok = False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_ok:
        raise WrongInput(f"{where}: '{url}' is not an address such as http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise WrongInput(f"{where}: put no user or password into the address; name a variable in api_key_env")
    if parts.query or parts.fragment:
        raise WrongInput(f"{where}: '{url}' must be the server's root, without ? or #")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")
