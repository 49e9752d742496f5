"""The names of formats in Dynamo's own Rust frontend."""

from __future__ import annotations

from collections.abc import Collection

from ...base.errors import REASONING_FLAG, TOOL_CALL_FLAG
from ...parsers.base import ParserNames
from ...parsers.format import Format
from ...parsers.parser_lookup import Kind, reasoning_format, tool_format


def known_in_rust(flag: str) -> Collection[str]:
    """Return the names that Dynamo accepts for one of the two flags; none without Dynamo."""
    try:
        from dynamo._core import get_reasoning_parser_names, get_tool_parser_names
    except ImportError:
        return ()
    names: list[str] = {
        TOOL_CALL_FLAG: get_tool_parser_names,
        REASONING_FLAG: get_reasoning_parser_names,
    }[flag]()
    return names


def name_in_rust(flag: str, format_: Format) -> str | None:
    """Return Dynamo's name of a format; None if its frontend does not support it."""
    known = known_in_rust(flag)
    return next((name for name in (format_.name, *format_.aliases) if name in known), None)


def complete_names(names: ParserNames, in_rust: ParserNames, kind: Kind) -> ParserNames:
    """Return `names`, completed by the formats that Dynamo's flags for stock frontends name.

    in_rust: the names of those flags. kind: native parsers are only those that are named.
    """
    if kind == "native":
        return names
    tool = tool_format(in_rust.tool_call) if in_rust.tool_call else None
    reasoning = reasoning_format(in_rust.reasoning) if in_rust.reasoning else None
    return ParserNames(
        names.tool_call or (None if tool is None else tool.name),
        names.reasoning or (None if reasoning is None else reasoning.name),
    )
