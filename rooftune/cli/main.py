"""The command line: a table of commands, each in its own file, imported only when it is called.

A command's file `rooftune/cli/<module>.py` has a function ``register(app: typer.Typer) -> None`` that adds its
command(s) to a fresh Typer application, so `rooftune --help` need not import any of them.
"""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass

from rooftune.errors import RooftuneError, WrongInput


@dataclass(frozen=True, slots=True)
class Command:
    module: str
    help: str


COMMANDS: dict[str, Command] = {
    "optimize": Command("optimize", "From a goal to a proven better configuration."),
    "bench": Command("bench", "Load a server (URL, model or spec) and measure it."),
    "diagnose": Command("diagnose", "Say why a run or a spec's baseline is slow, with evidence."),
    "serve": Command("serve", "Serve a model over an OpenAI-compatible API."),
    "models": Command("models", "List, pull and show models."),
    "techniques": Command("techniques", "The catalogue: every technique, when it applies, what it costs."),
    "roofs": Command("roofs", "Measure what this machine can do: bandwidth and arithmetic."),
    "doctor": Command("doctor", "Check this machine and installation."),
}


def main(arguments: list[str] | None = None) -> int:
    """Entry point. Every expected problem is one line on standard error and the exit status of the design."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        return _dispatch(words)
    except RooftuneError as problem:
        print(f"rooftune: {_one_line(problem)}", file=sys.stderr)
        return problem.exit_status
    except BrokenPipeError:
        # The reader went away (`| head`): not an error, and Python must not complain at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as problem:
        if problem.errno == 28:
            print(
                f"rooftune: no disk space left ({problem.filename or 'write failed'}); free some and go on",
                file=sys.stderr,
            )
            return 4
        raise
    except KeyboardInterrupt:
        print("rooftune: interrupted", file=sys.stderr)
        return 130


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if words[0] in ("--version", "-V"):
        from rooftune import __version__

        print(f"rooftune {__version__}")
        return 0
    command = COMMANDS.get(words[0])
    if command is None:
        from rooftune.spec.nearest import nearest

        raise WrongInput(f"unknown command '{words[0]}'{nearest(words[0], COMMANDS)}")
    return _run(words[0], command, words[1:])


def _run(name: str, command: Command, words: list[str]) -> int:
    import typer
    from typer.main import get_command

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    importlib.import_module(f"rooftune.cli.{command.module}").register(app)
    try:
        result = get_command(app).main(args=words, prog_name=f"rooftune {name}", standalone_mode=False)
    except Exception as problem:
        # Typer carries its own copy of click, so its usage errors are known by their method, not by an import.
        message = getattr(problem, "format_message", None)
        if message is None:
            raise
        raise WrongInput(f"{message().rstrip('.')}; see rooftune {name} --help") from None
    return result if isinstance(result, int) else 0


def overview() -> str:
    """The help page, built without importing any command."""
    width = max(map(len, COMMANDS))
    lines = [
        "Rooftune takes a served LLM from a goal to a proven faster, cheaper configuration.",
        "",
        "Usage: rooftune COMMAND [OPTIONS]   (rooftune COMMAND --help for one)",
        "",
        *(f"  {name:<{width}}  {command.help}" for name, command in COMMANDS.items()),
        "",
        "Start here: rooftune optimize examples/chat.yaml --out out",
    ]
    return "\n".join(lines)


def _one_line(problem: BaseException) -> str:
    return " ".join(str(problem).split())


def entry() -> None:
    """Console script."""
    sys.exit(main())


if __name__ == "__main__":
    entry()
