"""Where a server listens; without the engine, so that a port in use is told before anything heavy is imported."""

from __future__ import annotations

import errno
import ipaddress
import socket

from rooftune.errors import EnvironmentProblem


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound to ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bind(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet. Raises EnvironmentProblem when the address cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as problem:
        raise EnvironmentProblem(
            f"the host '{host}' is not known ({problem.strerror}); check --host"
        ) from None
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as problem:
        bound.close()
        raise cannot_bind(host, port, problem) from None
    return bound


def cannot_bind(host: str, port: int, problem: OSError) -> EnvironmentProblem:
    """Why an address cannot be had, and what to change."""
    if problem.errno == errno.EADDRINUSE:
        return EnvironmentProblem(
            f"port {port} on {host} is in use; stop what uses it or give another --port"
        )
    if problem.errno == errno.EACCES:
        return EnvironmentProblem(
            f"port {port} needs more rights than this user has; give a --port above 1023"
        )
    return EnvironmentProblem(f"cannot listen on {host} port {port} ({problem.strerror}); check --host")


def url_of(bound: socket.socket) -> str:
    """The address that a client on this machine uses."""
    host, port = bound.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
