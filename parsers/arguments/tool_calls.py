"""Emits the events of the tool calls that the grammars read."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import TypeAlias

from ...base.json_types import JsonObject
from ...base.limits import MAX_MARKUP, MAX_SEARCHED_ARGUMENTS
from ..events import (
    Event,
    Malformation,
    ToolCallArguments,
    ToolCallMalformed,
    ToolCallStarted,
)
from ..schema import FunctionSchema
from .declared_functions import DeclaredFunctions
from .json_text import escape_json

# Text between parameters that is no mere mark; and a sign that it was a parameter, or belongs to
# one: a tag, an end mark that ends nothing, a value in quotes.
_WORD = re.compile(r"\w")
_MARK = re.compile(r"[<>=\"{}\[\]|]")


@dataclass
class CallSource:
    """The signs in a call's source that it is complete, or not.

    keys: of the members so far. is_malformed: the call stays open.
    lacks_mark, lacks_end: a mark has been dropped; the end of a value is missing.
    lacks_call_end: so is the call's own.
    lacking_quote: the second quote that a key lacks.
    stray: marks between the parameters, and words that wait there. shows_stray: text went out.
    has_literals: the values are literals, with ends of their own.
    """

    keys: set[str] = field(default_factory=set)
    is_malformed: bool = False
    lacks_mark: bool = False
    lacks_end: bool = False
    lacks_call_end: bool = False
    lacking_quote: str = ""
    stray: str = ""
    shows_stray: bool = False
    has_literals: bool = False


FindMarkup: TypeAlias = Callable[[str, Collection[str], FunctionSchema, CallSource, bool], bool]
"""Finds markup that a call's values have swallowed: `SwallowedMarkup.is_in`."""


class ToolCallEmitter:
    """Numbers the calls of one choice, builds their JSON text and appends the events.

    events: the list to append to; its owner may replace it.
    parameters: as for `DeclaredFunctions`.
    markup: finds markers that a value has swallowed; None if values have ends of their own.
    guesses: malformed arguments are repaired by guesses, so they leave no call open.
    before_start: is called when a call starts.
    index, name: the last call's; -1 before the first. open: it has not ended.
    """

    def __init__(
        self,
        events: list[Event],
        parameters: Mapping[str, JsonObject],
        markup: FindMarkup | None = None,
        *,
        guesses: bool = False,
    ) -> None:
        self.events = events
        self.functions = DeclaredFunctions(parameters, checks=not guesses)
        self.before_start: Callable[[], None] = lambda: None
        self._guesses = guesses
        self.use(markup)
        self._source = CallSource()
        # The arguments of the last call, for `FindMarkup`, and how many characters more it takes.
        self._written = StringIO()
        self._room = 0
        self._has_arguments = False
        self.index = -1
        self.open = False
        self.name = ""

    def use(self, markup: FindMarkup | None) -> None:
        """Look for the markers of another form of calls from now on."""
        self._markup = None if self._guesses else markup

    @property
    def schema(self) -> FunctionSchema:
        """The parameters' schema of the last call."""
        return self.functions.schema(self.name)

    def start(self, name: str, call_id: str | None = None) -> None:
        """Begin a call, after ending an open one."""
        self.end()
        self.before_start()
        self.index += 1
        self._source = CallSource()
        self._written = StringIO()
        self._room = 0
        self._has_arguments = False
        self.open = True
        self.name = name
        self.events.append(ToolCallStarted(self.index, name, call_id))

    def arguments(self, text: str) -> None:
        """Append `text` to the JSON of the open call's arguments.

        Arguments outside of a call, which a damaged header may announce, are dropped; the format
        shows them as text.
        """
        if text and self.open:
            self._has_arguments = True
            if self._room > 0:
                self._room -= self._written.write(text)
            self.events.append(ToolCallArguments(self.index, text))

    def member(self, key: str, *, is_literal: bool = False) -> None:
        """Begin the next member of the arguments' object; `arguments` adds its value.

        is_literal: the value has an end of its own, so it swallows markup only by a slip.

        One that comes a second time leaves the call open, since a client would have but one of the
        values; and so does a declared one with pieces of its tag.
        """
        self.drop_stray()
        self._source.has_literals = is_literal
        keys = self._source.keys
        if key in keys or self.functions.has_frame(self.name, key):
            self.malformed("invalid_key")
        if not keys:
            self.search_markup()  # not in an object written whole, which has ends of its own
        self.arguments(f'{", " if keys else "{"}"{escape_json(key)}": ')
        keys.add(key)

    def end(self) -> None:
        """End the open call, if any: close its object, or write `{}` if it has no arguments."""
        if not self.open:
            return
        self.drop_stray()
        source = self._source
        if not source.is_malformed and (slip := self._find_slip()) is not None:
            self.malformed(slip)
        if source.is_malformed:
            pass
        elif source.keys:
            self.arguments("}")
        elif not self._has_arguments:
            self.arguments("{}")
        self.open = False

    # Slips.

    @property
    def stops_repair(self) -> Callable[[Malformation], None] | None:
        """To be called where a repair would need a guess; None if guesses are wanted."""
        return None if self._guesses else self.malformed

    def malformed(self, kind: Malformation) -> None:
        """Leave the open call open for good: its arguments cannot be JSON without a guess."""
        if self.open and not self._source.is_malformed and not self._guesses:
            self._source.is_malformed = True
            self.events.append(ToolCallMalformed(self.index, kind))

    def lack_value(self) -> None:
        """Take a member whose value is missing."""
        if self._guesses:
            self.arguments("null")
        else:
            self.malformed("missing_value")

    def stray(
        self, text: str, kind: Malformation = "extra_text", key: str = "", *, skips: bool = False
    ) -> bool:
        """Take text of the open call where only markers may stand: no word of it is dropped.

        key: waits for a value in front of the text. Return whether it went out with the text.
        skips: words without a mark wait, and are dropped if the call goes on after them.
        """
        if not self.open or self._guesses:
            return False
        if not self._source.shows_stray:
            text = self._hold_stray(text, kind, key, skips=skips)
        if self._source.shows_stray:
            self.arguments(f" {key} {text}" if key else text)
        return self._source.shows_stray

    def _hold_stray(self, text: str, kind: Malformation, key: str, *, skips: bool) -> str:
        """Hold text of the call until it is a slip, which shows it; return all of it then."""
        source = self._source
        slip = (_MARK if skips and not key else _WORD).search(text)
        text = (source.stray + text).lstrip()  # white space is not held, however long it is
        if slip is not None or len(text) > MAX_MARKUP:
            self.malformed(kind)
        source.shows_stray = source.is_malformed and bool(text)
        source.stray = "" if source.shows_stray else text
        # No word of it joins the value before.
        return f" {text}" if source.keys and not key else text

    def drop_stray(self) -> None:
        """Drop marks, which are no part of any value: a slip."""
        source = self._source
        source.lacks_mark |= bool(source.stray)
        source.stray = ""
        source.shows_stray = False

    @property
    def held_words(self) -> str:
        """The words that wait in the open call."""
        return self._source.stray

    def show_words(self) -> None:
        """Show the words that wait, in a call that nothing of its own goes on or ends."""
        source = self._source
        if _WORD.search(source.stray) is not None:
            self.malformed("extra_text")
            self.arguments(f" {source.stray}" if source.keys else source.stray)
            source.stray = ""

    def search_markup(self) -> None:
        """Keep what is written from now on, for `has_swallowed_markup`."""
        self._room = MAX_SEARCHED_ARGUMENTS if self._markup is not None else 0

    def has_swallowed_markup(self) -> bool:
        """Whether the arguments so far, which lack their last brace, have swallowed markup."""
        if self._markup is None or not self._has_arguments or self._room <= 0:
            return False
        written, source, functions = self._written.getvalue(), self._source, self.functions
        if source.has_literals and not source.lacks_end:
            return False
        names = {*functions, *functions.keys(self.name)}
        lacks_key = not source.keys.issuperset(functions.required(self.name))
        return self._markup(written, names, self.schema, source, lacks_key)

    def drop_mark(self) -> None:
        """Note that a mark has been dropped: the call needs its required parameters then."""
        self._source.lacks_mark = True

    def end_without_marker(self) -> None:
        """Note that the end of a value is missing."""
        self._source.lacks_end = True

    def end_without_call_end(self) -> None:
        """Note that the next call, or the end of the output, comes before the call's own end."""
        self._source.lacks_call_end = True

    def lack_quote(self, quote: str) -> None:
        """Note that a key lacks its second quote, which its value may have."""
        self._source.lacking_quote = quote

    def _find_slip(self) -> Malformation | None:
        """Return the slip that only the end of the call shows."""
        source, functions, keys = self._source, self.functions, self._source.keys
        is_whole = self._has_arguments and not keys  # they were written as one object
        if source.lacks_mark and not is_whole and set(functions.required(self.name)) - keys:
            return "missing_parameter"
        if source.lacking_quote and not keys.issubset(functions.keys(self.name)):
            return "invalid_key"
        return "swallowed_markup" if self.has_swallowed_markup() else None
