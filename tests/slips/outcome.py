"""Puts the events of an output with slips into one of five classes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from backedge.parsers.base import ParserRequest
from backedge.parsers.events import (
    Content,
    Event,
    Reasoning,
)
from backedge.postprocess.delta_builder import DeltaBuilder, aggregate_deltas

from tests.parsers.event_outcome import read_shown
from tests.parsers.families.family import Invocation
from tests.slips.slips import DECLARED, TOOLS

Write = Callable[[str, Sequence[Invocation]], str]
"""Writes content and calls as a model does: `Family.write`."""
TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool}


class Class(StrEnum):
    """The class of an output of two calls.

    RIGHT: both are complete and as they were meant. OPEN: a call is visibly unfinished.
    TEXT: a call is content. LOST: a word of a call is nowhere.
    WRONG: a complete call has a name, key or value that was not meant, or comes too often.
    OTHER: so it has, and the output is well-formed: the slip has written another good call, which
        passes unchanged. No reader can tell it from one that was meant.
    """

    RIGHT = "right"
    OPEN = "open"
    TEXT = "text"
    LOST = "lost"
    WRONG = "WRONG"
    OTHER = "other"


def classify(events: Sequence[Event], meant: Sequence[Invocation]) -> Class:
    """Return what the client got of the calls that the model meant."""
    shown = read_shown(events)
    complete: list[Invocation] = []
    for index, (name, text) in enumerate(zip(shown.names, shown.arguments, strict=True)):
        arguments = read_object(text)
        if index not in shown.still_open and arguments is not None:
            complete.append((name, arguments))
    if any(is_wrong(call, meant) for call in complete) or has_repeated(complete, meant):
        return Class.WRONG
    if complete == list(meant):
        return Class.RIGHT
    if words(meant).difference(find_words([shown.text, *shown.arguments])):
        return Class.LOST
    return Class.OPEN if len(complete) < len(shown.names) else Class.TEXT


def classify_slip(
    events: Sequence[Event], meant: Sequence[Invocation], output: str, write: Write
) -> Class:
    """Return the class of an output with slips. write: how the model writes calls."""
    class_ = classify(events, meant)
    shown = read_shown(events)
    arguments = [read_object(text) for text in shown.arguments]
    complete = [
        (name, value)
        for name, value in zip(shown.names, arguments, strict=True)
        if value is not None
    ]
    is_well_formed = not shown.still_open and _bare(write("", complete)) == _bare(output)
    return Class.OTHER if class_ is Class.WRONG and is_well_formed else class_


def _bare(output: str) -> str:
    """Return an output without what a format may write around a value: white space, CDATA."""
    return re.sub(r"<!\[CDATA\[|\]\]>|\s", "", output)


def differs_without_stream(events: Sequence[Event]) -> bool:
    """Whether the answer without a stream has other calls, or lacks a word of the stream.

    A call that the stream leaves open is content there.
    """
    builder = DeltaBuilder(0, ParserRequest(tools=TOOLS, tool_choice="auto"))
    for event in events:
        builder.write(event)
    builder.finish("stop", None, cut=False)
    whole = aggregate_deltas(builder.take(), builder.open_calls(stopped=True)).delta
    calls = [(call.function.name or "", call.function.arguments) for call in whole.tool_calls]
    shown = read_shown(events)
    complete = [
        call
        for index, call in enumerate(zip(shown.names, shown.arguments, strict=True))
        if index not in shown.still_open and read_object(call[1]) is not None
    ]
    content = "".join(event.text for event in events if isinstance(event, Content))
    reasoning = "".join(event.text for event in events if isinstance(event, Reasoning))
    texts = [content, reasoning, *shown.names, *shown.arguments]
    kept = " ".join([whole.content or "", whole.reasoning_content or "", *map(" ".join, calls)])
    return calls != complete or not set(find_words(texts)) <= set(find_words([kept]))


def find_words(texts: Sequence[str]) -> list[str]:
    """Return the words of texts."""
    return re.findall(r"\w+", " ".join(texts))


def read_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that `text` is; None for other text."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def is_wrong(call: Invocation, meant: Sequence[Invocation]) -> bool:
    """Whether a complete call has a name, key or value that no call was meant to have.

    A required parameter that is missing counts as a value that was not meant.
    """
    name, arguments = call
    return breaks_schema(call) or not any(
        name == other and all(key in known and known[key] == arguments[key] for key in arguments)
        for other, known in meant
    )


def breaks_schema(call: Invocation) -> bool:
    """Whether a complete call's function or arguments are not as declared."""
    name, arguments = call
    declared = DECLARED.get(name)
    return (
        declared is None
        or arguments.keys() != declared.keys()
        or any(type(arguments[key]) is not TYPES[type_] for key, type_ in declared.items())
    )


def has_repeated(complete: Sequence[Invocation], meant: Sequence[Invocation]) -> bool:
    """Whether a call came more often than it was meant."""
    return any(complete.count(call) > meant.count(call) for call in complete)


def words(calls: Sequence[Invocation]) -> set[str]:
    """Return the words of the values that are strings."""
    return {
        word
        for _, arguments in calls
        for value in arguments.values()
        if isinstance(value, str)
        for word in value.split()
    }
