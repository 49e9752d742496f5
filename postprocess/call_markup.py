"""Finds calls in the content of an answer: those of a model that the parser does not fit."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from ..base.json_types import JsonObject
from ..base.limits import MAX_TOOL_NAME
from ..parsers.parser_lookup import known_formats
from ..parsers.structural_tag import find_opening

# How a function is named where the special tokens around its call are hidden.
_NAMED = re.compile(rf'(?:"name"\s*:\s*"|<function=)([^"<>\s]{{1,{MAX_TOOL_NAME}}})')


def holds_call(content: str, tools: Sequence[JsonObject]) -> bool:
    """Whether content has the mark with which calls begin in any format, or names a tool so."""
    if not content:
        return False
    if any(opening in content for opening in _find_openings()):  # faster than an expression
        return True
    named = {found[1] for found in _NAMED.finditer(content)}
    return bool(named) and any(
        isinstance(function := tool.get("function"), dict) and function.get("name") in named
        for tool in tools
    )


@functools.cache
def _find_openings() -> list[str]:
    formats = (entry.tools for entry in known_formats().values())
    found = {find_opening(format_) for format_ in formats if format_ is not None}
    # A mark without its end, such as `<function`, may be code.
    return sorted(opening for opening in found if opening and not opening[-1].isalnum())
