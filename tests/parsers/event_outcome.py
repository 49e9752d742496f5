"""What the client gets of a parser's events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from backedge.parsers.events import Content, Event, Reasoning, ToolCallArguments, ToolCallStarted

from benchmarks.samples.sample import Call, Outcome


def parse_arguments(arguments: str) -> Any:
    """Return the JSON value of `arguments`, or the text itself if it is no JSON."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def join_outcome(events: Sequence[Event]) -> Outcome:
    """Return what the client gets; white space around calls is dropped, as the writer does."""
    reasoning = "".join(event.text for event in events if isinstance(event, Reasoning))
    content = "".join(event.text for event in events if isinstance(event, Content))
    names = [event.name for event in events if isinstance(event, ToolCallStarted)]
    arguments = [
        "".join(
            event.text
            for event in events
            if isinstance(event, ToolCallArguments) and event.index == index
        )
        for index in range(len(names))
    ]
    calls = tuple(
        Call(name, parse_arguments(text)) for name, text in zip(names, arguments, strict=True)
    )
    return Outcome(reasoning or None, (content.strip() if calls else content) or None, calls)
