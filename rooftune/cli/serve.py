"""`rooftune serve MODEL`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rooftune.errors import WrongInput

if TYPE_CHECKING:
    from rooftune.engine.contracts import EngineConfig


def serve(
    model: Annotated[
        str | None,
        typer.Argument(help="Packaged name, .gguf file or Hugging Face folder.", metavar="MODEL"),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="An accepted configuration, as `rooftune optimize` writes it."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but loopback needs an API key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(
            help="Key that clients must send; better given as ROOFTUNE_API_KEY.", show_default=False
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="SWITCH=VALUE, e.g. --set slots=8; may be repeated.", metavar="SWITCH=VALUE"
        ),
    ] = None,
    parent_pid: Annotated[int | None, typer.Option(hidden=True, help="End when this process ends.")] = None,
) -> None:
    """Serve a model over an OpenAI-compatible API until Ctrl+C.

    Switches: batching, slots, batch_wait, token_budget, chunked_prefill, prefix_cache, weight_kernel, pool_tokens,
    threads. Without any, Rooftune's defaults.
    """
    from rooftune.runtimes.embedded.configuration_file import ConfigurationFile, read_configuration
    from rooftune.runtimes.embedded.parent import die_with_parent
    from rooftune.runtimes.embedded.switches import parse_assignment, resolve

    if parent_pid is not None:
        die_with_parent(parent_pid)
    chosen = read_configuration(config) if config is not None else ConfigurationFile(None, {})
    name = model or chosen.model
    if name is None:
        raise WrongInput("name a model, e.g. rooftune serve smollm2-135m, or a --config file that does")
    asked = dict(map(parse_assignment, assignments or ()))
    engine_config = resolve({**chosen.techniques, **asked})
    key = api_key or os.environ.get("ROOFTUNE_API_KEY") or None
    _serve(name, engine_config, host, port, key)


def _serve(name: str, engine_config: EngineConfig, host: str, port: int, key: str | None) -> None:
    from rooftune.runtimes.embedded.missing import need_engine_packages

    need_engine_packages()
    from rooftune.engine.server.binding import bind, is_loopback, url_of

    if key is None and not is_loopback(host):
        raise WrongInput(
            f"--host {host} can be reached from other machines: set ROOFTUNE_API_KEY (or --api-key), or bind 127.0.0.1"
        )
    # Bound before the model loads: a port in use is told at once.
    with bind(host, port) as bound:
        from rooftune.cli.progress import console_progress
        from rooftune.engine.model.catalogue import locate

        # Found, or fetched, before the heavy imports: a wrong name is told at once.
        progress = console_progress()
        locate(name, progress)

        from rooftune.engine.model.load import load_runner
        from rooftune.engine.server.run import Running, build_service, tune_process

        loaded = load_runner(name, engine_config.weight_kernel, engine_config.threads, progress)
        service, engine = build_service(loaded, engine_config, key)
        tune_process()
        url = url_of(bound)

        def ready() -> None:
            with_key = " --header 'Authorization: Bearer …'" if key else ""
            print(f"ready: {service.model.name} at {url}  (next: rooftune bench {url}{with_key})", flush=True)

        Running(service, engine, bound).serve(ready)


def register(app: typer.Typer) -> None:
    app.command()(serve)
