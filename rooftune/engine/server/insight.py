"""What the server tells of itself: health, metrics, configuration, ledger, counters, step log, tokens."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import asdict
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rooftune.engine.server.errors import bad_request
from rooftune.engine.server.fields import DetokenizeBody, TokenizeBody
from rooftune.engine.server.metrics import used_share
from rooftune.engine.server.service import Service
from rooftune.engine.stats import EngineStats, StepRecord

LEVELS = frozenset({"peak_running", "threads", "pages_total"})
"""Evidence in the ledger that is a level, not a count of events."""


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def health(request: Request) -> Response:
    """200 while steps are being made (or nothing is to do), 503 with the reason when they are not."""
    service = _service(request)
    ok, reason = service.engine.healthy(service.limits.health)
    return JSONResponse({"status": "ok" if ok else "unhealthy", "reason": reason}, 200 if ok else 503)


async def version(request: Request) -> Response:
    return JSONResponse({"version": _service(request).version})


async def models(request: Request) -> Response:
    return JSONResponse({"object": "list", "data": [_model(_service(request))]})


async def model(request: Request) -> Response:
    service = _service(request)
    if request.path_params["name"] != service.model.name:
        raise service.unknown_model(request.path_params["name"])
    return JSONResponse(_model(service))


def _model(service: Service) -> dict[str, Any]:
    return {
        "id": service.model.name,
        "object": "model",
        "created": service.created,
        "owned_by": "rooftune",
        "max_model_len": service.model.longest,
    }


async def metrics(request: Request) -> Response:
    service = _service(request)
    return Response(service.metrics.render(service.bridge.open), media_type=CONTENT_TYPE_LATEST)


async def config(request: Request) -> Response:
    """The resolved configuration: every setting of the engine, the model's description, version and process id."""
    service = _service(request)
    return JSONResponse(
        {
            **asdict(service.config),
            "model": service.describe(),
            "longest_sequence": service.model.longest,
            "version": service.version,
            "pid": os.getpid(),
        }
    )


async def techniques(request: Request) -> Response:
    """The ledger: for each switch what was asked, whether it was on, why, and the counter that shows it."""
    return JSONResponse({"techniques": full_ledger(_service(request))})


def full_ledger(service: Service) -> list[dict[str, Any]]:
    """The engine's ledger, and the switches that shape the engine before its first step."""
    config, stats = service.config, service.engine.stats()
    entries = list(service.engine.ledger())
    pages = config.pool_tokens // config.page_size
    entries.append(
        {
            "name": "pool_tokens",
            "requested": config.pool_tokens,
            "active": stats.pages_total == pages,
            "reason": f"the pool has {stats.pages_total} pages of {config.page_size} tokens",
            "counter": {"name": "pages_total", "value": stats.pages_total},
        }
    )
    if config.batching == "dynamic":
        entries.append(
            {
                "name": "batch_wait",
                "requested": config.batch_wait,
                "active": True if stats.batches_formed else None,
                "reason": f"{stats.batches_formed} batches were formed under it",
                "counter": {"name": "batches_formed", "value": stats.batches_formed},
            }
        )
    return entries


async def stats(request: Request) -> Response:
    """Counters (they only grow) and gauges, with the monotonic time of this machine."""
    service = _service(request)
    counters, gauges = counted(service.engine.stats(), full_ledger(service))
    gauges["open_requests"] = service.bridge.open
    return JSONResponse({"time_ns": time.monotonic_ns(), "counters": counters, "gauges": gauges})


def counted(stats: EngineStats, ledger: list[dict[str, Any]]) -> tuple[dict[str, float], dict[str, float]]:
    """The engine's state as counters and gauges in Rooftune's words; every counter that the ledger names is there."""
    counters: dict[str, float] = {
        "steps": stats.steps,
        "generated_tokens": stats.generation_tokens,
        "prompt_tokens": stats.prompt_tokens,
        "prefill_tokens": stats.prefill_tokens,
        "prefix_query_tokens": stats.prefix_queries,
        "prefix_hit_tokens": stats.prefix_hits,
        "preemptions": stats.preemptions,
        "lost_tokens": stats.lost_tokens,
        "evictions": stats.evictions,
        "joins_while_running": stats.joins_while_running,
        "prompts_split": stats.prompts_split,
        "mixed_steps": stats.mixed_steps,
        "budget_full_steps": stats.budget_full_steps,
        "idle_row_steps": stats.idle_row_steps,
        "row_steps": stats.row_steps,
        "batches_formed": stats.batches_formed,
        "failed_steps": stats.failed_steps,
        "listener_errors": stats.listener_errors,
        "seconds_forward": stats.seconds_forward,
        "seconds_sampling": stats.seconds_sampling,
        "seconds_scheduling": stats.seconds_scheduling,
        **{f"finished_{reason}": count for reason, count in stats.finished.items()},
        **{f"batches_of_{size}": count for size, count in stats.batch_sizes.items()},
        **{f"operator_{name}": count for name, count in stats.runner_counters.items()},
    }
    gauges: dict[str, float] = {
        "running": stats.running,
        "waiting": stats.waiting,
        "kv_used": used_share(stats),
        "pages_used": stats.pages_used,
        "pages_cached": stats.pages_cached,
        "pages_free": stats.pages_free,
        "pages_total": stats.pages_total,
    }
    for entry in ledger:
        evidence = entry["counter"]
        (gauges if evidence["name"] in LEVELS else counters)[evidence["name"]] = evidence["value"]
    return counters, gauges


async def steps(request: Request) -> Response:
    """Steps that began at or after ``since_ns`` (monotonic nanoseconds of this machine), oldest first."""
    since = request.query_params.get("since_ns", "0")
    if not since.isdigit():
        raise bad_request("'since_ns' is a whole number of nanoseconds", "since_ns")
    records = _service(request).engine.steps_since(int(since))
    return JSONResponse({"steps": [step_row(record) for record in records]})


def step_row(record: StepRecord) -> dict[str, float]:
    """One step in the words of a run's step log, and what else the engine knows of it."""
    row = record.flat()
    return {
        "begin_ns": row.pop("start_ns"),
        "seconds": row.pop("duration"),
        "context_tokens": row.pop("context_sum"),
        **row,
    }


async def reset_prefix_cache(request: Request) -> Response:
    """Forget reusable prefixes. ``cleared`` is true only when no cached page was seen to be left."""
    engine = _service(request).engine
    engine.reset_prefix_cache()
    deadline = time.monotonic() + 5.0
    left = engine.stats().pages_cached
    while left and time.monotonic() < deadline:
        await asyncio.sleep(0.005)
        left = engine.stats().pages_cached
    return JSONResponse({"cleared": left == 0, "pages_cached": left})


async def tokenize(request: Request) -> Response:
    service = _service(request)
    body = await service.read(request, TokenizeBody)
    if (body.prompt is None) == (body.messages is None):
        raise bad_request("give either 'prompt' or 'messages'", "prompt")
    if body.messages is not None:
        tokens = await service.model.encode_chat(body.messages, body.add_generation_prompt)
    else:
        tokens = await service.model.encode(body.prompt or "", body.add_special_tokens)
    text = service.model.tokenizer.token_text
    strings = [text(token) for token in tokens] if body.return_token_strs else None
    return JSONResponse(
        {
            "count": len(tokens),
            "max_model_len": service.model.longest,
            "tokens": tokens,
            "token_strs": strings,
        }
    )


async def detokenize(request: Request) -> Response:
    service = _service(request)
    body = await service.read(request, DetokenizeBody)
    service.model.check_tokens(body.tokens, "tokens")
    return JSONResponse({"prompt": service.model.tokenizer.decode(body.tokens, skip_special=False)})
