"""The events that a parser produces from the output of one choice, in order."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

Malformation = Literal[
    "invalid_json",
    "extra_text",
    "missing_value",
    "invalid_key",
    "missing_parameter",
    "swallowed_markup",
]
"""Why the arguments of a call are no JSON; docs/metrics.md explains each."""
MALFORMATIONS = frozenset(get_args(Malformation))


class Reasoning(msgspec.Struct, frozen=True, tag=True):
    """New text of the model's reasoning, never empty."""

    text: str


class Content(msgspec.Struct, frozen=True, tag=True):
    """New text of the answer, never empty."""

    text: str


class ToolCallStarted(msgspec.Struct, frozen=True, tag=True):
    """A tool call whose name is complete.

    index: the number of the call in this choice, repeated in the events of its arguments.
    id: the id that the model wrote or its format prescribes, if any.
    """

    index: int
    name: str
    id: str | None = None


class ToolCallArguments(msgspec.Struct, frozen=True, tag=True):
    """New text of a call's arguments; the texts of one call concatenate to a JSON object.

    Unless `ToolCallMalformed` says that they do not.
    """

    index: int
    text: str


class ToolCallMalformed(msgspec.Struct, frozen=True, tag=True):
    """The arguments of a call are no JSON, and delimiters alone cannot make them so.

    What follows of the call is in further `ToolCallArguments`, as the model wrote it. The call
    stays open: no client may execute it.
    """

    index: int
    kind: Malformation


class ToolCallCut(msgspec.Struct, frozen=True, tag=True):
    """Generation ended inside a call. Always the last event.

    index: the call; None if its name was incomplete.
    text: the rest of the call, in the model's own syntax, that is in no other event.
    """

    index: int | None
    text: str


Event = Reasoning | Content | ToolCallStarted | ToolCallArguments | ToolCallMalformed | ToolCallCut


def join(events: list[Event]) -> list[Event]:
    """Join adjacent events of the same kind and call."""
    joined: list[Event] = []
    for event in events:
        last = joined[-1] if joined else None
        if isinstance(event, Reasoning) and isinstance(last, Reasoning):
            joined[-1] = Reasoning(last.text + event.text)
        elif isinstance(event, Content) and isinstance(last, Content):
            joined[-1] = Content(last.text + event.text)
        elif (
            isinstance(event, ToolCallArguments)
            and isinstance(last, ToolCallArguments)
            and last.index == event.index
        ):
            joined[-1] = ToolCallArguments(event.index, last.text + event.text)
        else:
            joined.append(event)
    return joined
