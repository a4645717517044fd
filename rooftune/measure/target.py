"""What is measured: where it listens, which model, and what goes with every request."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import urlsplit

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.workload.prompts.contract import CountTokens, Message

_PROBE_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Target:
    """A server and how to ask it.

    ignore_eos: whether it honours `ignore_eos`, so that answers of a fixed length can be asked. continuous_usage:
    whether it tells usage in every chunk, which makes tokens per chunk known. api_key_env: the *name* of the
    environment variable with the key; the key itself is never kept in a record, a log or a report.
    """

    url: str
    model: str
    api: Literal["auto", "chat", "completions"] = "auto"
    headers: tuple[tuple[str, str], ...] = ()
    extra_body: dict[str, Any] = field(default_factory=dict)
    api_key_env: str | None = None
    timeout: float = 600.0
    ignore_eos: bool = True
    continuous_usage: bool = True
    ca_file: str | None = None
    maximum_connections: int = 4096
    runtime: str | None = None
    version: str | None = None
    resolved: bool = False
    """Set by `resolve_target`: the server was reached and what it can do is known."""

    def describe(self) -> dict[str, Any]:
        """What a run keeps: no header values, no key, no user or password of the URL."""
        return {
            "url": public_url(self.url),
            "model": self.model,
            "runtime": self.runtime,
            "version": self.version,
            "api": self.api,
            "headers": [name for name, _ in self.headers],
            "extra_body": self.extra_body,
            "ignore_eos": self.ignore_eos,
        }


@dataclass(frozen=True, slots=True)
class Address:
    """A URL taken apart. ``base`` is the path before `/v1`."""

    scheme: str
    host: str
    port: int
    base: str

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = 443 if self.scheme == "https" else 80
        return host if self.port == default else f"{host}:{self.port}"


def address_of(url: str) -> Address:
    """Raises WrongInput for what is not an http(s) URL."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError as problem:
        raise WrongInput(f"'{url}' is not a URL ({problem})") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise WrongInput(f"'{url}' is not an http or https URL, e.g. http://127.0.0.1:8000")
    base = parts.path.rstrip("/")
    for ending in ("/chat/completions", "/completions", "/v1"):
        base = base.removesuffix(ending)
    return Address(
        parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80), base.rstrip("/")
    )


def public_url(url: str) -> str:
    """The URL without user, password and query, which may hold secrets."""
    address = address_of(url)
    return f"{address.scheme}://{address.host_header}{address.base}"


def request_headers(target: Target) -> list[tuple[str, str]]:
    """Headers of every request, the key included: for the socket only. Raises WrongInput for a missing key."""
    headers = list(target.headers)
    for name, value in headers:
        if not name or any(c in name + value for c in "\r\n\0") or not name.isascii() or ":" in name:
            raise WrongInput(f"header '{name}' cannot be sent")
    if target.api_key_env:
        key = os.environ.get(target.api_key_env)
        if not key:
            raise WrongInput(
                f"the environment variable {target.api_key_env}, which should hold the API key, is not set"
            )
        headers.append(("Authorization", f"Bearer {key.strip()}"))
    return headers


def tls_context(target: Target) -> ssl.SSLContext | None:
    """Certificate checks are always on; a private authority is named by ``ca_file``."""
    if address_of(target.url).scheme != "https":
        return None
    try:
        return ssl.create_default_context(cafile=target.ca_file)
    except (OSError, ssl.SSLError) as problem:
        raise WrongInput(f"certificate file {target.ca_file} cannot be used ({problem})") from None


def ask(
    target: Target,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    timeout: float = _PROBE_TIMEOUT,
) -> tuple[int, Any]:
    """One plain request outside the load. Returns (status, JSON value or text).

    Raises EnvironmentProblem where the server cannot be reached.
    """
    address = address_of(target.url)
    headers = dict(request_headers(target))
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    more: dict[str, Any] = {"context": tls_context(target)} if address.scheme == "https" else {}
    connection = kind(address.host, address.port, timeout=timeout, **more)
    try:
        data = None
        if body is not None:
            data = json.dumps(body)
            headers["Content-Type"] = "application/json"
        connection.request(method, address.base + path, data, headers)
        response = connection.getresponse()
        content = response.read(4 << 20)
    except (OSError, http.client.HTTPException) as problem:
        detail = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
        raise EnvironmentProblem(f"{public_url(target.url)} cannot be reached: {detail}") from None
    finally:
        connection.close()
    try:
        return response.status, json.loads(content)
    except ValueError:
        return response.status, content.decode("utf-8", "replace")


def resolve_target(target: Target) -> Target:
    """Reach the server, find the model where none is named, and learn what kind of server it is.

    Raises EnvironmentProblem where it cannot be reached, WrongInput where it serves other models than the named one.
    """
    status, body = ask(target, "GET", "/v1/models")
    if status in (401, 403):
        raise WrongInput(
            f"{public_url(target.url)} wants a key (status {status}); name its environment variable with --api-key-env"
        )
    listed = body.get("data") if isinstance(body, dict) and status == 200 else None
    entries = [m for m in listed if isinstance(m, dict) and m.get("id")] if isinstance(listed, list) else []
    names = [str(m["id"]) for m in entries]
    if not target.model:
        if not names:
            raise WrongInput(
                f"{public_url(target.url)} lists no model (status {status}); name it with --model"
            )
        target = replace(target, model=names[0])
    elif names and target.model not in names:
        shown = ", ".join(names[:5])
        raise WrongInput(f"{public_url(target.url)} does not serve '{target.model}'; it serves: {shown}")
    owner = next((str(m.get("owned_by", "")).lower() for m in entries if m["id"] == target.model), "")
    known = owner in ("vllm", "rooftune", "sglang")
    return replace(
        target,
        ignore_eos=target.ignore_eos and (known or not owner or owner == "llamacpp"),
        continuous_usage=target.continuous_usage and owner in ("vllm", "rooftune"),
        runtime=target.runtime or owner or None,
        version=target.version or _version(target),
        resolved=True,
    )


def _version(target: Target) -> str | None:
    try:
        status, body = ask(target, "GET", "/version")
    except EnvironmentProblem:
        return None
    found = body.get("version") if isinstance(body, dict) and status == 200 else None
    return str(found) if found else None


def server_tokenizer(target: Target) -> CountTokens | None:
    """The server's own count of a conversation's prompt tokens (`/tokenize`), or None where it has no such endpoint."""

    def count(messages: list[Message]) -> int:
        status, body = ask(target, "POST", "/tokenize", {"model": target.model, "messages": messages})
        if status == 200 and isinstance(body, dict):
            if isinstance(body.get("count"), int):
                return int(body["count"])
            if isinstance(body.get("tokens"), list):
                return len(body["tokens"])
        raise EnvironmentProblem(f"{public_url(target.url)}/tokenize answered {status} without a count")

    try:
        count([{"role": "user", "content": "one two"}])
    except EnvironmentProblem:
        return None
    return count
