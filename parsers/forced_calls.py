"""Forced tool calls that guided decoding makes the model write as plain JSON.

Under tool_choice "required" the model writes `[{"name": ..., "parameters": {...}}, ...]`; under a
named choice it writes only the arguments, or with SGLang's schema the same array. The code that
builds the grammar decides whether a forced call has this syntax or the model's own
(`ParserRequest.json_calls`); the model does not choose. So the parser here replaces the tool
parser, and leaves reasoning to the parser that it wraps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from typing_extensions import override

from ..base.limits import MAX_SPACE
from .arguments.incremental_grammar import Status
from .arguments.json_repair import JsonRepairer
from .arguments.tool_calls import ToolCallEmitter
from .base import ParserRequest, ParserWrapper, StreamParser
from .compiled_format import compile_format
from .events import Content, Event, ToolCallCut, join
from .format import COMPLETE, Format, ReuseSuffix, State
from .held_back import HeldText, hold
from .machine import LinearParser

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
    if not request.reads_forced_json:
        return parser
    return ForcedCallParser(parser, request.forced_name, guesses=request.guesses)


# The beginning of an array or an object, or a possible one.
_BEGINNING = re.compile(r"\s*(?:(?P<array>\[)|(?P<object>\{\s*[\"}])|\{?\s*\Z)")

_QUOTE = re.compile('"')
# One that may open a string of JSON; in front of one in a marker stands another mark.
_OPENING_QUOTE = re.compile(r'(?<![^\s\[{,:])"')


class ForcedCallParser(ParserWrapper):
    """Reads the content of `inner` as JSON calls; content of another form is unchanged.

    Inside a string of JSON all text is the string's, whatever `inner` would read it as.

    name: the function of a named tool_choice; None for the array of "required".
    guesses: as for `ToolCallEmitter`.
    """

    def __init__(self, inner: StreamParser, name: str | None, *, guesses: bool = False) -> None:
        super().__init__(inner)
        self._calls: LinearParser | _NamedCall = (
            LinearParser(REQUIRED, {}, guesses=guesses)
            if name is None
            else _NamedCall(name, guesses=guesses)
        )

    @property
    @override
    def state_name(self) -> str:
        return self._inner.state_name if self._inner.in_reasoning else "forced call"

    @property
    @override
    def held(self) -> Sequence[HeldText]:
        return [*(self._inner.held or ()), *self._calls.held]

    @override
    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        events: list[Event] = []
        while True:
            in_string = self._calls.in_string
            quote = (_QUOTE if in_string else _OPENING_QUOTE).search(text)
            end = len(text) if quote is None else quote.end()
            piece, text = text[:end], text[end:]
            if in_string:
                events += self._calls.feed(piece)
            else:
                events += self._read(self._inner.feed(piece, token_ids))
            if not text:
                return events
            token_ids = ()

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        events = self.feed(text, token_ids)
        events += self._read(self._inner.finish(cut=cut))
        return events + self._calls.finish(cut=cut)

    def _read(self, events: list[Event]) -> list[Event]:
        read: list[Event] = []
        for event in events:
            read += self._calls.feed(event.text) if isinstance(event, Content) else [event]
        return read


class _NamedCall:
    """Reads only the arguments of one call, or an array of calls.

    Text that does not begin as a JSON object or array is content, and so is text after the
    object. Holds back white space and a brace until a member or another brace follows: at most
    `MAX_SPACE` characters; more is content.
    """

    def __init__(self, name: str, *, guesses: bool) -> None:
        self._name = name
        self._array: LinearParser | None = None
        self._guesses = guesses
        self._calls = ToolCallEmitter({}, guesses=guesses)
        self._arguments = JsonRepairer(self._calls.arguments, malformed=self._calls.stops_repair)
        self._state: Callable[[str], None] = self._begin
        self._held = ""

    @property
    def held(self) -> list[HeldText]:
        """The held-back text."""
        return hold("possible call", self._held) if self._array is None else self._array.held

    @property
    def in_string(self) -> bool:
        """Whether the next text belongs to a string."""
        return self._arguments.in_string if self._array is None else self._array.in_string

    def feed(self, text: str) -> list[Event]:
        """Return the events that `text` completes."""
        if self._array is not None:
            return self._array.feed(text)
        text, self._held = self._held + text, ""
        self._state(text)
        return join(self._calls.take()) if self._array is None else self._array.feed(text)

    def _begin(self, text: str) -> None:
        """Determine what `text` begins."""
        start = _BEGINNING.match(text)
        if start is None or start.end() > MAX_SPACE:
            self._show(text)
        elif start["array"]:
            self._array = LinearParser(REQUIRED, {}, guesses=self._guesses)
        elif start["object"]:
            self._calls.start(self._name)
            self._state = self._read_arguments
            self._read_arguments(text.lstrip())
        else:
            self._held = text

    def _read_arguments(self, text: str) -> None:
        rest = text[self._arguments.read_far(text) :]
        if self._arguments.status is Status.DONE:
            self._state = self._skip_space
            self._skip_space(rest)
        else:
            self._held = rest

    def _skip_space(self, text: str) -> None:
        """Hold back white space after the arguments."""
        if text.strip() or len(text) > MAX_SPACE:
            self._show(text)
        else:
            self._held = text

    def _show(self, text: str) -> None:
        self._state = self._show
        self._calls.emit(Content(text))

    def finish(self, *, cut: bool) -> list[Event]:
        """Return the events of held-back text; arguments that have not ended stay open."""
        if self._array is not None:
            return self._array.finish(cut=cut)
        if not self._calls.open:
            if self._held and not (cut and self._held.lstrip()):
                self._calls.emit(Content(self._held))
            elif self._held:
                self._calls.emit(ToolCallCut(None, self._held))
        elif self._arguments.status is not Status.DONE:
            self._calls.emit(ToolCallCut(self._calls.index, self._held))
        return join(self._calls.take())
