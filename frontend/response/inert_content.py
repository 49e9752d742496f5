"""Spells content so that Dynamo's HTTP layer reads no call in it.

Where a model's card names a tool parser of Dynamo's, that layer runs it over the content of each
answer without a stream and without calls, and completes what it finds: a call that was left open
would be executed. It also drops what follows a marker. So one space breaks each marker of the
format, and the key `name` of what looks like a call object loses its quotes.
"""

from __future__ import annotations

import functools
import re

from ...base.json_types import decode_json
from ...parsers.format import Format, State
from ...parsers.parser_lookup import tool_format

# Shorter markers are brackets and marks of JSON.
_MIN_MARKER = 3
# The marks or the word with which a marker begins.
_STEM = re.compile(r"\W|\w+")
# A tag that the end of the text has cut.
_CUT_TAG = r"<(?=[^\s<>][^<>]*\Z)"
_PYTHON_CALL = r"\[(?=[A-Za-z_]\w*\()"
_NAME_KEY = re.compile(r'(?<!":)(?<!": )([{,]\s*)"name"(?=\s*:)')
_ARGUMENT_KEYS = frozenset({"arguments", "parameters", "args"})
# Dynamo's parsers that take any object with a name for a call.
_TAKES_NAME = frozenset({"hermes", "qwen25"})
# Dynamo reads no object with a code block or its end after it.
_FENCE = re.compile(r"(?m)^ {0,3}```")


def spell_inert(text: str, parser: str, *, has_tools: bool = True) -> str:
    """Return `text` without anything that Dynamo's tool parser of this name reads as a call.

    All words stay, in order. A JSON answer stays JSON unless it would be a call. has_tools:
    without tools, Dynamo only looks for markers.
    """
    text = _find_markers(parser).sub(lambda marker: _STEM.sub(r"\g<0> ", marker[0], count=1), text)
    if not has_tools or _is_answer(text, takes_name=parser in _TAKES_NAME):
        return text
    start = max((fence.end() for fence in _FENCE.finditer(text)), default=0)
    return text[:start] + _NAME_KEY.sub(r"\1name", text[start:])


@functools.cache
def _find_markers(parser: str) -> re.Pattern[str]:
    format_ = tool_format(parser)
    markers = _spell_markers(format_) if format_ is not None else []
    if format_ is not None and "[" in format_.states.get(State.START, {}):
        markers.append(_PYTHON_CALL)
    return re.compile("|".join([*markers, _CUT_TAG]))


def _spell_markers(format_: Format) -> list[str]:
    spelled = {
        spelling.strip()
        for markers in format_.states.values()
        for marker in markers
        for spelling in format_.spell(marker)
    }
    longest_first = sorted(spelled, key=len, reverse=True)
    return [
        re.escape(marker)
        for marker in longest_first
        if len(marker) >= _MIN_MARKER and re.search(r"\w", marker)
    ]


def _is_answer(text: str, *, takes_name: bool) -> bool:
    """Whether `text` is JSON that is no call. takes_name: a name alone makes a call."""
    try:
        value = decode_json(text)
    except ValueError:
        return False
    items = value if isinstance(value, list) else [value]
    return not any(
        isinstance(item, dict)
        and isinstance(item.get("name"), str)
        and (takes_name or not _ARGUMENT_KEYS.isdisjoint(item))
        for item in items
    )
