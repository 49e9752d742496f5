"""The Jinja environment of chat templates: Jinja's own sandbox, with what transformers adds to it.

Only render processes and tests load a template here; others ask a process (`rendering`).
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from datetime import datetime
from typing import NoReturn

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from typing_extensions import override

from .open_calls import render_open_calls


class Generation(Extension):
    """`{% generation %}` marks the assistant's text for training; here it has no effect."""

    tags = {"generation"}  # noqa: RUF012 - declared as in jinja2's base class

    @override
    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def create_environment() -> ImmutableSandboxedEnvironment:
    """Return the environment of transformers' `apply_chat_template`."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # jinja2's own filter escapes for HTML. What its filters make, as `map` does, is a generator.
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
        default=_read_generator,
    )


def _read_generator(value: object) -> list[object]:
    """Return the items of a generator; other values are no JSON."""
    if isinstance(value, Generator):
        return list(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)  # noqa: DTZ005 - models get the local date, as in vLLM


class LoadedTemplate:
    """A chat template in this process. Raises what Jinja raises for one that it cannot compile.

    variables: the names that it reads without setting them.
    reads_parts: whether it loops over a message's content, which must then be a list of parts.
    """

    def __init__(self, source: str) -> None:
        environment = create_environment()
        parsed = environment.parse(source)
        self.reads_parts = any(_is_content(loop.iter) for loop in parsed.find_all(nodes.For))
        self.variables = frozenset(meta.find_undeclared_variables(parsed))
        self._template = environment.from_string(source)

    def render(self, variables: Mapping[str, object]) -> str:
        """Return the text of a prompt. Raises whatever the template raises."""
        return render_open_calls(self._template.render, variables)


def _is_content(node: nodes.Node) -> bool:
    while isinstance(node, nodes.Filter) and node.node is not None:
        node = node.node
    if isinstance(node, nodes.Getattr):
        return node.attr == "content"
    if isinstance(node, nodes.Getitem):
        return isinstance(node.arg, nodes.Const) and node.arg.value == "content"
    return isinstance(node, nodes.Name) and node.name == "content"
