"""All formats by the names that users of vLLM and SGLang know, and the choice between them and an engine's own."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .base import ParserNames
from .errors import REASONING_FLAG, TOOL_CALL_FLAG, SetupError, UnknownParserError
from .format import Format
from .formats.catalog import FORMATS
from .linear_parsers import LinearParsers, Vocabulary

Kind = Literal["auto", "linear", "native"]
ENTRY_POINTS = "backedge.formats"


@dataclass(frozen=True)
class Entry:
    """What one name stands for: tool calls, reasoning or both, of one format or of two."""

    tools: Format | None = None
    reasoning: Format | None = None


def index_by_name(formats: Iterable[Format]) -> dict[str, Entry]:
    """Return what `formats` have by each of their names.

    Raises `SetupError` if two have tool calls, or two have reasoning, under one name.
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
    """Return our formats and those that other packages add by an entry point of the group `backedge.formats`."""
    plugins = [
        entry_point.load() for entry_point in importlib.metadata.entry_points(group=ENTRY_POINTS)
    ]
    return index_by_name([*FORMATS, *plugins])


def tool_format(name: str) -> Format | None:
    """Return the format of that name that has tool calls."""
    return known_formats().get(name, Entry()).tools


def reasoning_format(name: str) -> Format | None:
    """Return the format of that name that has reasoning."""
    return known_formats().get(name, Entry()).reasoning


def uses_native(kind: Kind, names: ParserNames) -> bool:
    """Whether the engine's own parsers are to be used.

    kind: "auto" takes the linear parsers where both names have one.
    Raises `UnknownParserError` if "linear" is asked for and a name has none.
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
    """Return the linear parsers of these names. Raises `UnknownParserError` for a name that has none."""
    uses_native("linear", names)
    tools = tool_format(names.tool_call) if names.tool_call else None
    reasoning = reasoning_format(names.reasoning) if names.reasoning else None
    return LinearParsers(tools, reasoning, vocabulary)
