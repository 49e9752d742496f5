"""The names of formats in Dynamo's own Rust frontend."""

from __future__ import annotations

from collections.abc import Collection

from ...base.errors import REASONING_FLAG, TOOL_CALL_FLAG
from ...parsers.format import Format


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
