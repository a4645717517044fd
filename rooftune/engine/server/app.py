"""The application: routes, the key, and errors in one shape."""

from __future__ import annotations

import hmac
import logging

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from rooftune.engine.server import insight
from rooftune.engine.server.bridge import ClientGone
from rooftune.engine.server.chat import chat
from rooftune.engine.server.completions import completions
from rooftune.engine.server.errors import ApiError, failed
from rooftune.engine.server.service import Service

logger = logging.getLogger(__name__)

_OPEN_PATHS = frozenset({"/health"})


class KeyRequired:
    """Lets a request through only with the right bearer key; health is open to everyone."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._expected = f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in _OPEN_PATHS:
            given = Headers(scope=scope).get("authorization", "").encode("latin-1", "replace")
            if not hmac.compare_digest(given, self._expected):
                refusal = ApiError(
                    401,
                    "a valid API key is needed: send 'Authorization: Bearer KEY'",
                    kind="authentication_error",
                    code="invalid_api_key",
                    headers={"www-authenticate": "Bearer"},
                )
                await refusal.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def _api_error(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, ApiError)
    return problem.response()


async def _http_error(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    if problem.status_code == 404:
        message = f"there is no {request.url.path[:200]} here"
    elif problem.status_code == 405:
        message = f"{request.url.path[:200]} does not answer to {request.method}"
    else:
        message = problem.detail
    return ApiError(problem.status_code, message, headers=problem.headers).response()


async def _client_gone(request: Request, problem: Exception) -> Response:
    # Nobody reads it; the status is the one that proxies log for a client that closed its request.
    return Response(status_code=499)


async def _unexpected(request: Request, problem: Exception) -> Response:
    logger.error("%s %s failed", request.method, request.url.path, exc_info=problem)
    return failed("an internal error; the server's log has the details").response()


def build_app(service: Service) -> Starlette:
    """The ASGI application over one service."""
    routes = [
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/completions", completions, methods=["POST"]),
        Route("/v1/models", insight.models, methods=["GET"]),
        Route("/v1/models/{name:path}", insight.model, methods=["GET"]),
        Route("/tokenize", insight.tokenize, methods=["POST"]),
        Route("/detokenize", insight.detokenize, methods=["POST"]),
        Route("/health", insight.health, methods=["GET"]),
        Route("/version", insight.version, methods=["GET"]),
        Route("/metrics", insight.metrics, methods=["GET"]),
        Route("/reset_prefix_cache", insight.reset_prefix_cache, methods=["POST"]),
        Route("/rooftune/config", insight.config, methods=["GET"]),
        Route("/rooftune/techniques", insight.techniques, methods=["GET"]),
        Route("/rooftune/stats", insight.stats, methods=["GET"]),
        Route("/rooftune/steps", insight.steps, methods=["GET"]),
    ]
    middleware = [Middleware(KeyRequired, key=service.api_key)] if service.api_key else []
    app = Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={
            ApiError: _api_error,
            HTTPException: _http_error,
            ClientGone: _client_gone,
            Exception: _unexpected,
        },
    )
    app.state.service = service
    app.router.redirect_slashes = False
    return app
