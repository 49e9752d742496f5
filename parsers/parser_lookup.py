"""Formats by name, and the choice between linear parsers and an engine's own.

Users of vLLM and SGLang know the names.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ..base.errors import REASONING_FLAG, TOOL_CALL_FLAG, SetupError, UnknownParserError
from .base import ParserNames
from .format import Format
from .formats.catalog import FORMATS
from .linear_parsers import LinearParsers, Vocabulary

Kind = Literal["auto", "linear", "native"]
ENTRY_POINTS = "backedge.formats"


@dataclass(frozen=True)
class Entry:
    """The formats of one name; they may be the same."""

    tools: Format | None = None
    reasoning: Format | None = None


def index_by_name(formats: Iterable[Format]) -> dict[str, Entry]:
    """Return `formats` by name and alias.

    Raises `SetupError` if two formats with tool calls, or two with reasoning, share a name.
    """
    entries: dict[str, Entry] = {}
    for format_ in formats:
        part = Entry(
            format_ if format_.parses_tools else None, format_ if format_.parses_reasoning else None
        )
        for name in (format_.name, *format_.aliases):
            known = entries.get(name, Entry())
            if (known.tools and part.tools) or (known.reasoning and part.reasoning):
                raise SetupError(
                    f"two formats are named {name!r}; the second is of {format_.source}."
                )
            entries[name] = Entry(known.tools or part.tools, known.reasoning or part.reasoning)
    return entries


@functools.cache
def known_formats() -> dict[str, Entry]:
    """Return the formats of the catalog and of other packages.

    A package adds a format with an entry point of the group `backedge.formats`.
    """
    plugins = [
        entry_point.load() for entry_point in importlib.metadata.entry_points(group=ENTRY_POINTS)
    ]
    return index_by_name([*FORMATS, *plugins])


def tool_format(name: str) -> Format | None:
    """Return the format with tool calls that has this name, or None."""
    return known_formats().get(name, Entry()).tools


def reasoning_format(name: str) -> Format | None:
    """Return the format with reasoning that has this name, or None."""
    return known_formats().get(name, Entry()).reasoning


def uses_native(kind: Kind, names: ParserNames) -> bool:
    """Whether to use the engine's own parsers.

    kind: "auto" chooses the linear parsers if they support every name.
    Raises `UnknownParserError` if `kind` is "linear" and a name has no linear parser.
    """
    if kind == "native":
        return True
    for flag, name, find in (
        (TOOL_CALL_FLAG, names.tool_call, tool_format),
        (REASONING_FLAG, names.reasoning, reasoning_format),
    ):
        if name and find(name) is None:
            if kind == "auto":
                return True
            raise UnknownParserError(
                flag, name, [known for known in known_formats() if find(known) is not None]
            )
    return False


def linear_parsers(names: ParserNames, vocabulary: Vocabulary) -> LinearParsers:
    """Return the linear parsers of these names.

    Raises `UnknownParserError` for a name without a linear parser.
    """
    uses_native("linear", names)
    tools = tool_format(names.tool_call) if names.tool_call else None
    reasoning = reasoning_format(names.reasoning) if names.reasoning else None
    return LinearParsers(tools, reasoning, vocabulary)
