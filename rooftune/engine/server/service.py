"""Everything that the endpoints share."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import ClientDisconnect, Request

from rooftune.engine.contracts import EngineConfig, SamplingParameters
from rooftune.engine.server.answer import Answer, Plan
from rooftune.engine.server.bridge import Bridge, ClientGone, EnginePort
from rooftune.engine.server.errors import ApiError, bad_request
from rooftune.engine.server.fields import Generation, Kind, parse
from rooftune.engine.server.metrics import ServerMetrics
from rooftune.engine.server.prompts import TextModel


@dataclass(frozen=True, slots=True)
class Limits:
    """body: bytes of a request; health: seconds without a step, while work waits, from which health says no."""

    body: int = 16 << 20
    health: float = 30.0


@dataclass(slots=True)
class Service:
    """One engine with one model behind one API."""

    engine: EnginePort
    config: EngineConfig
    model: TextModel
    describe: Callable[[], dict[str, Any]]
    bridge: Bridge
    version: str
    api_key: str | None = None
    limits: Limits = field(default_factory=Limits)
    created: int = field(default_factory=lambda: int(time.time()))
    metrics: ServerMetrics = field(init=False)

    def __post_init__(self) -> None:
        self.metrics = ServerMetrics(self.model.name, self.engine.stats, self.config)

    async def read(self, request: Request, kind: type[Kind]) -> Kind:
        """The request's body, checked. Raises ApiError 400, 404 (unknown model) or 413."""
        body = parse(kind, await self._raw(request))
        asked = getattr(body, "model", None)
        if asked is not None and asked != self.model.name:
            raise self.unknown_model(asked)
        return body

    def unknown_model(self, asked: str) -> ApiError:
        return ApiError(
            404,
            f"the model '{asked[:200]}' does not exist here; this server has '{self.model.name}'",
            param="model",
            code="model_not_found",
        )

    def sampling(self, body: Generation, alternatives: int | None) -> SamplingParameters:
        """How tokens are drawn; length and seed are set per choice."""
        if body.min_tokens and not body.ignore_eos:
            raise ApiError(
                400,
                "'min_tokens' works only together with 'ignore_eos': true; set both, or leave it out",
                param="min_tokens",
                code="unsupported_parameter",
            )
        own_ends = frozenset(body.stop_token_ids)
        return SamplingParameters(
            maximum_tokens=1,
            temperature=body.temperature,
            top_k=max(body.top_k, 0),
            top_p=body.top_p,
            stop_tokens=own_ends if body.ignore_eos else own_ends | self.model.ends,
            ignore_end=body.ignore_eos and not own_ends,
            logprobs=alternatives,
        )

    def submit(
        self,
        prefix: str,
        body: Generation,
        prompts: list[tuple[int, ...]],
        maximum_tokens: list[int],
        alternatives: int | None,
        arrived_ns: int,
    ) -> tuple[str, Answer]:
        """The request's id and its answer, which is queued in the engine from now on."""
        if len(prompts) * body.n > self.config.queue_limit:
            raise bad_request(
                f"{len(prompts)} prompts times n = {body.n} is more than the queue holds "
                f"({self.config.queue_limit}); ask for fewer in one request",
                "n",
            )
        id = f"{prefix}-{uuid.uuid4().hex}"
        plan = Plan(
            id=id,
            prompts=tuple(prompts),
            maximum_tokens=tuple(maximum_tokens),
            sampling=self.sampling(body, alternatives),
            n=body.n,
            seed=body.seed,
            stops=body.stops,
            priority=body.priority,
        )
        return id, Answer(plan, self.model, self.bridge, self.metrics, arrived_ns)

    async def _raw(self, request: Request) -> bytes:
        limit = self.limits.body
        too_large = ApiError(413, f"the body is larger than {limit} bytes", code="body_too_large")
        stated = request.headers.get("content-length", "")
        if stated.isdigit() and int(stated) > limit:
            raise too_large
        parts = bytearray()
        try:
            async for part in request.stream():
                parts += part
                if len(parts) > limit:
                    raise too_large
        except ClientDisconnect:
            raise ClientGone from None
        return bytes(parts)
