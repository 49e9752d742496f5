"""Emits the events of the tool calls that the grammars read."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
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
from .ledger import Ledger, Slip

# Text between parameters that is no mere mark; and a sign that it was a parameter, or belongs to
# one: a tag, an end mark that ends nothing, a value in quotes.
_WORD = re.compile(r"\w")
_MARK = re.compile(r"[<>=\"{}\[\]|]")

FindMarkup: TypeAlias = Callable[[str, Collection[str], FunctionSchema, Ledger], bool]
"""Finds markup that a call's values have swallowed: `SwallowedMarkup.is_in`."""


class ToolCallEmitter:
    """Numbers the calls of one choice, builds their JSON text and appends the events.

    events: those since the last `take`.
    parameters: as for `DeclaredFunctions`.
    markup: finds markers that a value has swallowed; None if values have ends of their own.
    guesses: malformed arguments are repaired by guesses, so they leave no call open.
    before_start: is called when a call starts.
    ledger: of the last call.
    index, name: the last call's; -1 before the first. open: it has not ended.
    slips: number of ended calls whose ledger has slips.
    """

    def __init__(
        self,
        parameters: Mapping[str, JsonObject],
        markup: FindMarkup | None = None,
        *,
        guesses: bool = False,
        before_start: Callable[[], None] = lambda: None,
    ) -> None:
        self.events: list[Event] = []
        self.functions = DeclaredFunctions(parameters, checks=not guesses)
        self._before_start = before_start
        self._guesses = guesses
        self.use(markup)
        self.ledger = Ledger()
        # The arguments of the last call, for `FindMarkup`, and how many characters more it takes.
        self._written = StringIO()
        self._room = 0
        self._has_arguments = False
        self.index = -1
        self.slips = 0
        self.open = False
        self.name = ""

    def take(self) -> list[Event]:
        """Return the new events."""
        events, self.events = self.events, []
        return events

    def use(self, markup: FindMarkup | None) -> None:
        """Look for the markers of another form of calls from now on."""
        self._markup = None if self._guesses else markup

    @property
    def schema(self) -> FunctionSchema:
        """The parameters' schema of the last call."""
        return self.functions.schema(self.name)

    @property
    def keys(self) -> Collection[str]:
        """The parameters that the last call's function declares, in their order."""
        return self.functions.keys(self.name)

    @property
    def required(self) -> Collection[str]:
        """The parameters that the last call needs, as far as that is checked."""
        return self.functions.required(self.name)

    def start(self, name: str, call_id: str | None = None) -> None:
        """Begin a call, after ending an open one."""
        self.end()
        self._before_start()
        self.index += 1
        self.ledger = Ledger()
        self._written = StringIO()
        self._room = 0
        self._has_arguments = False
        self.open = True
        self.name = name
        self.emit(ToolCallStarted(self.index, name, call_id))

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
        ledger = self.ledger
        ledger.drop_stray()
        lead = ", " if ledger.keys else "{"
        if not ledger.keys:
            # Not in an object written whole, which has ends of its own.
            self._room = MAX_SEARCHED_ARGUMENTS if self._markup is not None else 0
        is_doubled = ledger.add_member(key, is_literal=is_literal)
        if is_doubled or self.functions.has_frame(self.name, key):
            self.malformed("invalid_key")
        self.arguments(f'{lead}"{escape_json(key)}": ')

    def end(self) -> None:
        """End the open call, if any: close its object, or write `{}` if it has no arguments."""
        if not self.open:
            return
        ledger = self.ledger
        ledger.drop_stray()
        if not ledger.is_malformed and (slip := self._find_malformation()) is not None:
            self.malformed(slip)
        if ledger.is_malformed:
            pass
        elif ledger.keys:
            self.arguments("}")
        elif not self._has_arguments:
            self.arguments("{}")
        # A call whose end is missing is complete, and some formats write none.
        self.slips += bool(ledger.slips - {Slip.CALL_END})
        self.open = False

    def emit(self, event: Event) -> None:
        """Append an event that belongs to no open call, or ends one."""
        self.events.append(event)

    # Slips.

    @property
    def stops_repair(self) -> Callable[[Malformation], None] | None:
        """To be called where a repair would need a guess; None if guesses are wanted."""
        return None if self._guesses else self.malformed

    def malformed(self, kind: Malformation) -> None:
        """Leave the open call open for good: its arguments cannot be JSON without a guess."""
        if self.open and not self._guesses and self.ledger.leave_open():
            self.emit(ToolCallMalformed(self.index, kind))

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
        ledger = self.ledger
        if not ledger.shows_stray:
            is_slip = (_MARK if skips and not key else _WORD).search(text) is not None
            if len(ledger.add_stray(text)) > MAX_MARKUP or is_slip:
                self.malformed(kind)
            text = ledger.show_stray()
            if ledger.keys and not key:  # no word of it joins the value before
                text = f" {text}"
        if ledger.shows_stray:
            self.arguments(f" {key} {text}" if key else text)
        return ledger.shows_stray

    def show_words(self) -> None:
        """Show the words that wait, in a call that nothing of its own goes on or ends."""
        ledger = self.ledger
        if _WORD.search(ledger.stray) is not None:
            self.malformed("extra_text")
            text = ledger.take_stray()
            self.arguments(f" {text}" if ledger.keys else text)

    def _has_swallowed_markup(self) -> bool:
        """Whether the arguments so far, which lack their last brace, have swallowed markup."""
        if self._markup is None or not self._has_arguments or self._room <= 0:
            return False
        ledger = self.ledger
        if ledger.has_literals and Slip.QUOTE not in ledger.slips:
            return False
        names = {*self.functions, *self.keys}
        return self._markup(self._written.getvalue(), names, self.schema, ledger)

    def _find_malformation(self) -> Malformation | None:
        """Return the slip that only the end of the call shows."""
        ledger = self.ledger
        is_whole = self._has_arguments and not ledger.keys  # they were written as one object
        lacks_key = not ledger.keys.issuperset(self.required)
        if Slip.MARK in ledger.slips and not is_whole and lacks_key:
            return "missing_parameter"
        return "swallowed_markup" if self._has_swallowed_markup() else None
