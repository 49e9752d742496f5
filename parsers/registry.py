"""All formats by the names that users of vLLM and SGLang know, and the choice between them and an engine's own."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Iterable
from typing import Literal

from .errors import SetupError, UnknownParserError
from .format import Format
from .formats import FORMATS
from .linear import LinearParsers, Vocabulary

Kind = Literal["auto", "linear", "native"]
ENTRY_POINTS = "backedge.formats"
TOOL_CALL_FLAG = "--tool-call-parser"
REASONING_FLAG = "--reasoning-parser"


def by_name(formats: Iterable[Format]) -> dict[str, Format]:
    """Return `formats` by their names. Raises `SetupError` for a name that is there twice."""
    named: dict[str, Format] = {}
    for format_ in formats:
        for name in (format_.name, *format_.aliases):
            if name in named:
                raise SetupError(
                    f"two formats are named {name!r}: one of {named[name].source}, one of {format_.source}."
                )
            named[name] = format_
    return named


@functools.cache
def known_formats() -> dict[str, Format]:
    """Return our formats and those that other packages add by an entry point of the group `backedge.formats`."""
    plugins = [entry_point.load() for entry_point in importlib.metadata.entry_points(group=ENTRY_POINTS)]
    return by_name([*FORMATS, *plugins])


def tool_format(name: str) -> Format | None:
    """Return the format of that name, if it has tool calls."""
    format_ = known_formats().get(name)
    return format_ if format_ is not None and format_.parses_tools else None


def reasoning_format(name: str) -> Format | None:
    """Return the format of that name, if it has reasoning."""
    format_ = known_formats().get(name)
    return format_ if format_ is not None and format_.parses_reasoning else None


def uses_native(kind: Kind, tool_call_parser: str | None, reasoning_parser: str | None) -> bool:
    """Whether the engine's own parsers are to be used.

    kind: "auto" takes the linear parsers where both names have one.
    Raises `UnknownParserError` if "linear" is asked for and a name has none.
    """
    if kind == "native":
        return True
    for flag, name, find in (
        (TOOL_CALL_FLAG, tool_call_parser, tool_format),
        (REASONING_FLAG, reasoning_parser, reasoning_format),
    ):
        if name and find(name) is None:
            if kind == "auto":
                return True
            raise UnknownParserError(flag, name, [known for known in known_formats() if find(known) is not None])
    return False


def linear_parsers(tool_call_parser: str | None, reasoning_parser: str | None, vocabulary: Vocabulary) -> LinearParsers:
    """Return the linear parsers of these names. Raises `UnknownParserError` for a name that has none."""
    uses_native("linear", tool_call_parser, reasoning_parser)
    tools = tool_format(tool_call_parser) if tool_call_parser else None
    reasoning = reasoning_format(reasoning_parser) if reasoning_parser else None
    return LinearParsers(tools, reasoning, vocabulary)
