"""Joins a parser's events to the answer that a client gets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from backedge.parsers.events import (
    Content,
    Event,
    Reasoning,
    ToolCallArguments,
    ToolCallCut,
    ToolCallMalformed,
    ToolCallStarted,
)

from benchmarks.samples.sample import Call, Outcome


def parse_arguments(arguments: str) -> Any:
    """Return the JSON value of `arguments`, or the text itself if it is no JSON."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


@dataclass
class Shown:
    """The texts that a client has, the names and arguments of calls, and the calls left open.

    text: content and reasoning in their order, with a space where one follows the other.
    """

    text: str = ""
    content: str = ""
    reasoning: str = ""
    names: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    still_open: set[int] = field(default_factory=set)

    def calls_begin(self, whole: Shown) -> bool:
        """Whether the calls are a beginning of those of `whole`."""
        return self.names == whole.names[: len(self.names)] and all(
            full.startswith(part)
            for part, full in zip(self.arguments, whole.arguments, strict=False)
        )

    def begins(self, whole: Shown) -> bool:
        """Whether all is a beginning of `whole`, but for white space at the end of a text."""
        texts = ((self.content, whole.content), (self.reasoning, whole.reasoning))
        return self.calls_begin(whole) and all(
            full.rstrip().startswith(part.rstrip()) for part, full in texts
        )


def read_shown(events: Sequence[Event]) -> Shown:
    """Return what a client has of the events."""
    shown = Shown()
    last: type[Event] | None = None
    for event in events:
        match event:
            case Content(text) | Reasoning(text):
                shown.text += text if last is type(event) else f" {text}"
                last = type(event)
                if isinstance(event, Content):
                    shown.content += text
                else:
                    shown.reasoning += text
            case ToolCallStarted(_, name):
                shown.names.append(name)
                shown.arguments.append("")
            case ToolCallArguments(index, text) if index < len(shown.arguments):
                shown.arguments[index] += text
            case ToolCallMalformed(index):
                shown.still_open.add(index)
            case ToolCallCut(index) if index is not None:
                shown.still_open.add(index)
    return shown


def join_outcome(events: Sequence[Event]) -> Outcome:
    """Return what the client gets; white space around calls is dropped, as the writer does."""
    shown = read_shown(events)
    arguments = map(parse_arguments, shown.arguments)
    calls = tuple(map(Call, shown.names, arguments))
    content = shown.content.strip() if calls else shown.content
    return Outcome(shown.reasoning or None, content or None, calls)
