"""Errors in the shape that OpenAI's clients read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse


class ApiError(Exception):
    """An answer other than 200. ``param`` names the field at fault, ``code`` is for programs."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body(), self.status, self.headers)


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def overloaded(message: str, seconds: int = 1) -> ApiError:
    """The queue is full; the client may try again after ``seconds``."""
    return ApiError(
        429, message, kind="rate_limit_error", code="queue_full", headers={"retry-after": str(seconds)}
    )


def unavailable(message: str) -> ApiError:
    """The engine cannot answer now: it stops or is dead."""
    return ApiError(503, message, kind="server_error", code="engine_unavailable")


def failed(message: str) -> ApiError:
    """The engine gave up on this request."""
    return ApiError(500, message, kind="server_error", code="engine_error")
