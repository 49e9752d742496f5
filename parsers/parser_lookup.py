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
from ..base.log import get_logger
from .base import ParserNames
from .format import Format
from .linear_parsers import LinearParsers, Vocabulary
from .response_template import PREFIX, find_table, wants_native

Kind = Literal["auto", "linear", "native"]
ENTRY_POINTS = "backedge.formats"
logger = get_logger(__name__)


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
def load_formats() -> tuple[dict[str, Entry], dict[str, str]]:
    """Return the formats by name, and by name why a format of another package is missing.

    A package adds a format with an entry point of the group `backedge.formats`. One that cannot be
    loaded is an error only when its name is asked for.
    """
    # Imported here: commands that name no parser need no table.
    from .formats.catalog import FORMATS

    formats, broken = list(FORMATS), dict[str, str]()
    entries = index_by_name(formats)
    for entry_point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            found = _load_format(entry_point)
            entries = index_by_name([*formats, found])
        except Exception as error:  # noqa: BLE001 - the code is another package's
            package = entry_point.dist.name if entry_point.dist else "another package"
            reason = f"{type(error).__name__}: {error}"
            broken[entry_point.name] = (
                f"the format {entry_point.name!r} of {package} cannot be loaded ({reason})"
            )
            logger.warning("%s", broken[entry_point.name])
        else:
            formats.append(found)
    return entries, broken


def _load_format(entry_point: importlib.metadata.EntryPoint) -> Format:
    found = entry_point.load()
    if not isinstance(found, Format):
        raise TypeError(f"{entry_point.value} is not a Format")
    return found


def known_formats() -> dict[str, Entry]:
    """Return the formats of the catalog and of other packages, by name."""
    return load_formats()[0]


def find_formats(name: str) -> Entry:
    """Return the formats that have this name. Raises `SetupError` for one that is broken."""
    if name.startswith(PREFIX):
        described = find_table(name)
        if isinstance(described, SetupError):
            return Entry()
        return Entry(
            described if described.parses_tools else None,
            described if described.parses_reasoning else None,
        )
    entries, broken = load_formats()
    if name not in entries and name in broken:
        raise SetupError(f"{broken[name]}; correct or uninstall that package.")
    return entries.get(name, Entry())


def tool_format(name: str) -> Format | None:
    """Return the format with tool calls that has this name, or None."""
    return find_formats(name).tools


def reasoning_format(name: str) -> Format | None:
    """Return the format with reasoning that has this name, or None."""
    return find_formats(name).reasoning


def uses_native(kind: Kind, names: ParserNames) -> bool:
    """Whether to use the engine's own parsers.

    kind: "auto" chooses the linear parsers if they support every name and none asks for native
        ones.
    Raises `UnknownParserError` if `kind` is "linear" and a name has no linear parser.
    """
    if kind == "native" or (kind == "auto" and wants_native(names)):
        return True
    for flag, name, find in (
        (TOOL_CALL_FLAG, names.tool_call, tool_format),
        (REASONING_FLAG, names.reasoning, reasoning_format),
    ):
        if name and find(name) is None:
            if kind == "auto":
                return True
            if name.startswith(PREFIX) and isinstance(refusal := find_table(name), SetupError):
                raise refusal
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
