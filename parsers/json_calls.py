"""Forced tool calls that guided decoding makes the model write as plain JSON.

Under tool_choice "required" that is `[{"name": ..., "parameters": {...}}, ...]`,
under a named choice the arguments alone. Which of the two syntaxes (this one or
the model's own) a forced call has is decided by whoever built the grammar, not
by the model, so this parser stands in for the tool parser and leaves reasoning
to the one it wraps. It reads each character once and buffers at most one name,
or the arguments of a call whose name comes after them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from .base import ParserRequest, StreamParser
from .events import Content, Event, ToolCallArguments, ToolCallStarted, join

WHITESPACE = " \t\r\n"


def with_json_calls(parser: StreamParser, request: ParserRequest) -> StreamParser:
    """Return `parser`, with its content read as JSON calls if `request` says so."""
    if not (request.json_calls and request.parses_tools):
        return parser
    return JsonCalls(parser, request.forced_name)


class JsonCalls:
    """Reads the content of `inner` as JSON calls; text of another form stays content.

    name: the function of a named tool_choice; None for the array of "required".
    """

    def __init__(self, inner: StreamParser, name: str | None) -> None:
        self._inner = inner
        self._calls = _NamedCall(name) if name is not None else _CallArray()

    @property
    def token_aligned(self) -> bool:
        """See `StreamParser`."""
        return self._inner.token_aligned

    @property
    def in_reasoning(self) -> bool:
        """See `StreamParser`."""
        return self._inner.in_reasoning

    @property
    def reasoning_tokens(self) -> int:
        """See `StreamParser`."""
        return self._inner.reasoning_tokens

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        """See `StreamParser`."""
        return self._read(self._inner.feed(text, token_ids))

    def finish(self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False) -> list[Event]:
        """See `StreamParser`."""
        return self._read(self._inner.finish(text, token_ids, cut=cut)) + self._calls.finish()

    def _read(self, events: list[Event]) -> list[Event]:
        read: list[Event] = []
        for event in events:
            read += self._calls.feed(event.text) if isinstance(event, Content) else [event]
        return read


class _Reader:
    """A state machine over characters: `_state` is the method that reads the next one."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._index = 0
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._arguments: list[str] = []
        self._state: Callable[[str], None] = self._start

    def feed(self, text: str) -> list[Event]:
        """Return the events that `text` completes."""
        for char in text:
            self._state(char)
        self._flush()
        events, self._events = join(self._events), []
        return events

    def finish(self) -> list[Event]:
        """Return what was held back; nothing is, unless a call had no name."""
        return []

    def _start(self, char: str) -> None:
        raise NotImplementedError

    def _flush(self) -> None:
        if self._arguments:
            self._events.append(ToolCallArguments(self._index, "".join(self._arguments)))
            self._arguments.clear()

    def _plain(self, char: str) -> None:
        """Not of the form: the text is content after all."""
        self._events.append(Content(char))

    def _track(self, char: str) -> bool:
        """Follow strings and brackets; True if `char` closes the outermost bracket."""
        if self._in_string:
            if self._escaped:
                self._escaped = False
            elif char == "\\":
                self._escaped = True
            elif char == '"':
                self._in_string = False
        elif char == '"':
            self._in_string = True
        elif char in "{[":
            self._depth += 1
        elif char in "}]":
            self._depth -= 1
            return self._depth == 0
        return False

    def _ignore(self, char: str) -> None:
        """Read what follows the last value; only white space can, under the grammar."""


class _NamedCall(_Reader):
    """The arguments of one call, nothing else."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def _start(self, char: str) -> None:
        if char in WHITESPACE:
            return
        if char != "{":
            self._state = self._plain
            self._plain(char)
            return
        self._events.append(ToolCallStarted(0, self._name))
        self._state = self._object
        self._object(char)

    def _object(self, char: str) -> None:
        self._arguments.append(char)
        if self._track(char):
            self._state = self._ignore


class _CallArray(_Reader):
    """An array of {"name": string, "parameters": object}, the keys in any order."""

    def __init__(self) -> None:
        super().__init__()
        self._index = -1
        self._key: list[str] = []
        self._value: list[str] = []
        self._name: str | None = None

    def finish(self) -> list[Event]:
        """Return the arguments of a call that never got its name, as content."""
        held, self._arguments = "".join(self._arguments), []
        return [Content(held)] if held else []

    def _flush(self) -> None:
        if self._name is not None:
            super()._flush()

    def _start(self, char: str) -> None:
        if char in WHITESPACE:
            return
        self._state = self._element if char == "[" else self._plain
        if char != "[":
            self._plain(char)

    def _element(self, char: str) -> None:
        if char == "{":
            self._index += 1
            self._name = None
            self._state = self._key_start
        elif char == "]":
            self._state = self._ignore

    def _key_start(self, char: str) -> None:
        if char == '"':
            self._key.clear()
            self._state = self._key_text
        elif char == "}":
            self._flush()
            self._state = self._element

    def _key_text(self, char: str) -> None:
        if char == '"':
            self._state = self._value_start
        else:
            self._key.append(char)

    def _value_start(self, char: str) -> None:
        if char in WHITESPACE or char == ":":
            return
        self._value.clear()
        is_arguments = char == "{" and "".join(self._key) in ("parameters", "arguments")
        self._state = self._arguments_text if is_arguments else self._value_text
        self._state(char)

    def _arguments_text(self, char: str) -> None:
        self._arguments.append(char)
        if self._track(char):
            self._state = self._key_start

    def _value_text(self, char: str) -> None:
        """Read any other value; a string under "name" starts the call."""
        if self._depth == 0 and not self._in_string and char in ",}":
            if "".join(self._key) == "name":
                self._call(msgspec.json.decode("".join(self._value)))
            self._state = self._key_start
            self._key_start(char)
            return
        self._value.append(char)
        self._track(char)

    def _call(self, name: object) -> None:
        self._name = str(name)
        self._events.append(ToolCallStarted(self._index, self._name))
