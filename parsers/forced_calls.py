"""Forced tool calls that guided decoding makes the model write as plain JSON.

Under tool_choice "required" the model writes `[{"name": ..., "parameters": {...}}, ...]`; under a
named choice it writes the arguments alone, or with SGLang's schema the same array. The builder of
the grammar decides whether a forced call has this syntax or the model's own one
(`ParserRequest.json_calls`); the model has no say. So the parser here takes the place of the tool
parser, and leaves reasoning to the parser that it wraps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from typing_extensions import override

from .arguments.incremental_grammar import Status
from .arguments.json_repair import JsonRepairer
from .arguments.tool_calls import ToolCallEmitter
from .base import ParserRequest, ParserWrapper, StreamParser
from .compiled_format import compile_format
from .events import Content, Event, ToolCallCut, join
from .format import COMPLETE, Format, ReuseSuffix, State
from .state_machine import LinearParser

REQUIRED = compile_format(
    None,
    Format(
        "forced JSON calls",
        {
            State.START: {"[": ReuseSuffix(State.JSON_CALLS)},
            State.JSON_CALLS: {COMPLETE: State.CONTENT},
        },
        source="vllm 0.31 entrypoints/openai: the schema of tool_choice required",
    ),
    {},
)


def wrap_forced_calls(parser: StreamParser, request: ParserRequest) -> StreamParser:
    """Return `parser`, or one that reads its content as JSON calls if `request` forces them."""
    if not (request.json_calls and request.parses_tools):
        return parser
    return ForcedCallParser(parser, request.forced_name)


class _CallReader(Protocol):
    def feed(self, text: str) -> list[Event]: ...

    def finish(self, *, cut: bool) -> list[Event]: ...


class ForcedCallParser(ParserWrapper):
    """Reads the content of `inner` as JSON calls; content of another form stays content.

    name: the function of a named tool_choice; None for the array of "required".
    """

    def __init__(self, inner: StreamParser, name: str | None) -> None:
        super().__init__(inner)
        self._calls: _CallReader = LinearParser(REQUIRED, {}) if name is None else _NamedCall(name)

    @override
    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        return self._read(self._inner.feed(text, token_ids))

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        events = self._read(self._inner.finish(text, token_ids, cut=cut))
        return events + self._calls.finish(cut=cut)

    def _read(self, events: list[Event]) -> list[Event]:
        read: list[Event] = []
        for event in events:
            read += self._calls.feed(event.text) if isinstance(event, Content) else [event]
        return read


class _NamedCall:
    """Reads the arguments of one call and nothing else, or an array of calls."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._array: LinearParser | None = None
        self._events: list[Event] = []
        self._calls = ToolCallEmitter(self._events, {})
        self._arguments = JsonRepairer(self._calls.arguments)
        self._held = ""

    def feed(self, text: str) -> list[Event]:
        """Return the events that `text` completes."""
        if self._array is not None:
            return self._array.feed(text)
        text = self._held + text
        self._held = ""
        if self._calls.index < 0:
            text = text.lstrip()
            if not text:
                return []
            if text.startswith("["):
                self._array = LinearParser(REQUIRED, {})
                return self._array.feed(text)
            if not text.startswith("{"):
                return [Content(text)]
            self._calls.start(self._name)
        if self._arguments.status is not Status.DONE:
            self._held = self._arguments.read_through(text)
        return self._take()

    def finish(self, *, cut: bool) -> list[Event]:
        """Return the events of what was held back; close the arguments unless they were cut."""
        if self._array is not None:
            return self._array.finish(cut=cut)
        if self._calls.open and self._arguments.status is not Status.DONE:
            if cut:
                self._events.append(ToolCallCut(self._calls.index, self._held))
            else:
                self._arguments.read(self._held, final=True)
                self._arguments.close()
        return self._take()

    def _take(self) -> list[Event]:
        events = join(self._events)
        self._events.clear()
        return events
