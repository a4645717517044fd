"""Chat templates: the model's own Jinja, run in a sandbox that cannot change anything or run for long."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from rooftune.errors import WrongInput

MAXIMUM_TEMPLATE = 200_000
"""Characters of a template; published ones stay under 20,000."""
MAXIMUM_OUTPUT = 8_000_000
"""Characters of a rendered prompt."""
MAXIMUM_SECONDS = 2.0
"""Time of one rendering; ordinary ones take under a millisecond."""


class _Generation(Extension):
    """Accepts ``{% generation %}``, which marks assistant text for training and prints its body."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(
            self.call_method("_body", [nodes.ContextReference()]), [], [], body
        ).set_lineno(line)

    def _body(self, context: Any, caller: Any) -> str:
        return str(caller())


class _Sandbox(ImmutableSandboxedEnvironment):
    """A sandbox whose arithmetic cannot build huge strings or numbers and whose loops end in time."""

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._clock = threading.local()

    def start_clock(self) -> None:
        """Give the rendering that starts in this thread its time."""
        self._clock.end = time.monotonic() + MAXIMUM_SECONDS

    def tick(self) -> str:
        """Called once per round of every loop and call of every macro; prints nothing."""
        if time.monotonic() > self._clock.end:
            raise TemplateError(f"it ran longer than {MAXIMUM_SECONDS:g} seconds")
        return ""

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        blocks: tuple[type[Any], ...] = (nodes.For, nodes.Macro, nodes.CallBlock)
        for block in tree.find_all(blocks):
            tick = nodes.Call(nodes.EnvironmentAttribute("tick"), [], [], None, None)
            block.body.insert(0, nodes.Output([tick]).set_lineno(block.lineno))
        return tree

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            raise SecurityError("powers are not allowed")
        if not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
            size = max((len(side) for side in (left, right) if hasattr(side, "__len__")), default=1)
            count = max((side for side in (left, right) if isinstance(side, int)), default=1)
            if size * count > MAXIMUM_OUTPUT:
                raise SecurityError("a repetition is too long")
        return super().call_binop(context, operator, left, right)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _json(value: Any, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=options.get("indent"))


class ChatTemplate:
    """One model's template, compiled once. Raises WrongInput when it cannot be compiled."""

    def __init__(self, source: str, special: Mapping[str, str]) -> None:
        """``special``: texts of the special tokens by their names in templates (bos_token, eos_token)."""
        if len(source) > MAXIMUM_TEMPLATE:
            raise WrongInput(f"chat template: {len(source)} characters; the limit is {MAXIMUM_TEMPLATE}")
        self.source = source
        self._special = dict(special)
        self._environment = environment = _Sandbox(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        environment.filters["tojson"] = _json
        try:
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise WrongInput(f"chat template: line {error.lineno}: {error.message}") from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **extra: Any,
    ) -> str:
        """The prompt for ``messages`` (role and content each). Raises WrongInput with the template's own words."""
        values = {
            **self._special,
            **extra,
            "messages": [dict(message) for message in messages],
            "add_generation_prompt": add_generation_prompt,
            "tools": None if tools is None else [dict(tool) for tool in tools],
        }
        self._environment.start_clock()
        try:
            return "".join(_bounded(self._template.generate(values)))
        except TemplateError as error:
            raise WrongInput(f"chat template: {error.message or type(error).__name__}") from error
        except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, RecursionError) as error:
            raise WrongInput(f"chat template: these messages do not suit it ({error})") from error


def _bounded(pieces: Iterator[str]) -> Iterator[str]:
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > MAXIMUM_OUTPUT:
            raise TemplateError(f"the prompt is longer than {MAXIMUM_OUTPUT} characters")
        yield piece
