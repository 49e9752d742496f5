"""Emits the events of the tool calls that the grammars read."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Mapping
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
from ..schema import FunctionSchema, ValueSchema
from .json_text import escape_json

# A sign that a parameter's key holds a piece of the markup around it; beside declared keys, more.
_MARKUP = re.compile("[<>=\"'\n]")
_PUNCTUATION = re.compile(r"[,:;|(){}\[\]]|\A\s|\s\Z")
# The name of a function that is not declared. A bare number is a call's counter.
_NAME = re.compile(r"(?!\d+\Z)\w(?:[\w.:/$\-]*\w)?")

FindMarkup: TypeAlias = Callable[[str, Collection[str], FunctionSchema, bool, str], bool]
"""Finds markup that a call's values have swallowed: `SwallowedMarkup.is_in`."""


class ToolCallEmitter:
    """Numbers the calls of one choice, builds their JSON text and appends the events.

    events: the list to append to; its owner may replace it.
    parameters: the JSON schema of the declared parameters, by function name; without any, every
        name and key is taken.
    markup: finds markers that a value has swallowed; None if values have ends of their own.
    guesses: malformed arguments are repaired by guesses, so they leave no call open.
    before_start: is called when a call starts.
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
        self.before_start: Callable[[], None] = lambda: None
        self._guesses = guesses
        self._parameters = parameters
        self._compiled: dict[str, FunctionSchema] = {}
        self._index = -1
        self._markup = None if guesses else markup
        self._has_arguments = False
        # The arguments, for `markup`, in pieces: none is empty, so it loses only too long ones.
        self._written: deque[str] | None = None
        self._unended = False
        self._lacking = ""  # the quote that a key lacks
        self._keys: set[str] = set()
        self._malformed = False
        self._doubtful = False
        self._stray = ""  # marks between an open call's parameters
        self._has_stray = False  # text between these went out
        self.open = False
        self.name = ""

    @property
    def index(self) -> int:
        """The number of the last call; -1 before the first."""
        return self._index

    @property
    def schema(self) -> JsonObject:
        """The parameters' schema of the last call; {} if its function is not declared."""
        return self._parameters.get(self.name, {})

    @property
    def compiled_schema(self) -> FunctionSchema:
        """The compiled parameters' schema of the last call."""
        compiled = self._compiled.get(self.name)
        if compiled is None:
            compiled = self._compiled[self.name] = FunctionSchema(self.schema)
        return compiled

    @property
    def has_members(self) -> bool:
        """Whether the last call has a parameter already."""
        return bool(self._keys)

    def value_schema(self, key: str) -> ValueSchema:
        """Return the schema of a parameter of the last call."""
        return self.compiled_schema.member(key)

    def declares(self, name: str) -> bool:
        """Whether the request declares a function of this name."""
        return name in self._parameters

    def may_be_name(self, name: str) -> bool:
        """Whether a function may have this name: it is declared, or looks like one.

        A declared name with more at one end of it does not.
        """
        if self._guesses or not self._parameters or self.declares(name):
            return True
        return _NAME.fullmatch(name) is not None and not any(
            known and (name.startswith(known) or name.endswith(known)) for known in self._parameters
        )

    def declared_keys(self, name: str) -> Collection[str]:
        """Return the parameters that the function `name` declares itself, in their order."""
        properties = self._parameters.get(name, {}).get("properties")
        return properties if isinstance(properties, dict) else ()

    def requires(self, name: str) -> bool:
        """Whether a call of this function needs arguments, as far as that is checked."""
        return not self._guesses and bool(self._parameters.get(name, {}).get("required"))

    def start(self, name: str, call_id: str | None = None) -> None:
        """Begin a call, after ending an open one."""
        self.end()
        self.before_start()
        self._index += 1
        self._has_arguments = False
        self._written = None if self._markup is None else deque(maxlen=MAX_SEARCHED_ARGUMENTS + 1)
        self._keys = set()
        self._malformed = self._doubtful = self._unended = False
        self._lacking = ""
        self.open = True
        self.name = name
        self.events.append(ToolCallStarted(self._index, name, call_id))

    def arguments(self, text: str) -> None:
        """Append `text` to the JSON of the open call's arguments.

        Arguments outside of a call, which a damaged header may announce, are dropped; the format
        shows them as text.
        """
        if text and self.open:
            self._has_arguments = True
            if self._written is not None:
                self._written.append(text)
            self.events.append(ToolCallArguments(self._index, text))

    def member(self, key: str) -> None:
        """Begin the next member of the arguments' object; `arguments` adds its value.

        A key that only a slip explains leaves the call open.
        """
        self._drop_stray()
        if not self.may_be_key(key):
            self.malformed("invalid_key")
        self.arguments(f'{", " if self._keys else "{"}"{escape_json(key)}": ')
        self._keys.add(key)

    @property
    def stops_repair(self) -> Callable[[Malformation], None] | None:
        """To be called where a repair would need a guess; None if guesses are wanted."""
        return None if self._guesses else self.malformed

    def lack_value(self) -> None:
        """Take a member whose value is missing."""
        if self._guesses:
            self.arguments("null")
        else:
            self.malformed("missing_value")

    def stray(self, text: str, kind: Malformation = "extra_text") -> None:
        """Take text of the open call where only markers may stand: no word of it is dropped."""
        if not self.open or self._guesses:
            return
        if not self._has_stray:
            text = (self._stray + text).lstrip()  # white space is not held, however long it is
            if re.search(r"\w", text) or len(text) > MAX_MARKUP:
                self.malformed(kind)
            if not self._malformed or not text:
                self._stray = text
                return
            self._has_stray = True
            self._stray = ""
        self.arguments(text)

    def drop_mark(self) -> None:
        """Note that a mark has been dropped: the call needs its required parameters then."""
        self._doubtful = True

    def end_without_marker(self) -> None:
        """Note that the end of a value is missing."""
        self._unended = True

    def lack_quote(self, quote: str) -> None:
        """Note that a key lacks its second quote, which its value may have."""
        self._lacking = quote

    def malformed(self, kind: Malformation) -> None:
        """Leave the open call open for good: its arguments cannot be JSON without a guess."""
        if self.open and not self._malformed and not self._guesses:
            self._malformed = True
            self.events.append(ToolCallMalformed(self._index, kind))

    def end(self) -> None:
        """End the open call, if any: close its object, or write `{}` if it has no arguments."""
        if not self.open:
            return
        self._drop_stray()
        if self._doubtful and not self._has_required():
            self.malformed("missing_parameter")
        if not self._malformed and self._has_swallowed():
            self.malformed("swallowed_markup")
        if self._malformed:
            pass
        elif self._keys:
            self.arguments("}")
        elif not self._has_arguments:
            self.arguments("{}")
        self.open = False

    def may_be_key(self, key: str) -> bool:
        """Whether a parameter may have this key: it is declared, or may be and has no markup."""
        schema, declared = self.schema, self.declared_keys(self.name)
        if self._guesses or key in declared:
            return True
        if not self._parameters or self.compiled_schema.root.has_property(key):
            return True  # nothing is known, or it is of a part: `allOf`, a reference
        if not key or _MARKUP.search(key) is not None:
            return self.value_schema(key).declared
        if not declared or "patternProperties" in schema:
            return True
        return schema.get("additionalProperties") is not False and not _PUNCTUATION.search(key)

    def _drop_stray(self) -> None:
        """Drop marks, which are no part of any value: a slip.

        After it the call is complete only if it has all parameters that it needs.
        """
        if self._stray:
            self._doubtful = True
        self._stray = ""
        self._has_stray = False

    def _has_swallowed(self) -> bool:
        written = "".join(self._written or ())
        if self._markup is None or not written or len(written) > MAX_SEARCHED_ARGUMENTS:
            return False
        names = {*self._parameters, *self.declared_keys(self.name)}
        return self._markup(written, names, self.compiled_schema, self._unended, self._lacking)

    def _has_required(self) -> bool:
        if self._has_arguments and not self._keys:
            return True  # they were written as a whole object
        required = self.schema.get("required")
        return not isinstance(required, list) or all(
            key in self._keys for key in required if isinstance(key, str)
        )
