"""The call that is being read: its frame, which is its name, header and keys, and its arguments."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..base.limits import MAX_MARKUP
from .argument_readers import begin_value, build_grammar
from .arguments.incremental_grammar import IncrementalGrammar, Status, skip_space
from .arguments.ledger import Slip
from .arguments.value_between_tags import SchemaValue
from .arguments.xml_elements import XmlElements
from .compiled_format import CompiledFormat
from .format import (
    BETWEEN_ARGUMENTS,
    CALL_ENDS,
    FRAME_STATES,
    GRAMMAR_STATES,
    INSIDE_ARGUMENT,
    TEXT_STATES,
    VALUE_STATES,
    Format,
    Jump,
    State,
    Target,
    target_state,
)
from .held_back import HeldText, hold
from .shown_text import ShownText

# Targets of what ends a call that has no end of its own, where the format has one.
_ALL_ENDS = (CALL_ENDS | {State.HEADER}) - {State.TOOL_SECTION}
_KEYS = frozenset({State.KEY, State.HEADER})
_MEMBERS = frozenset({State.PARAMETERS, State.KEY})
# A header's own marker after damage.
_DAMAGED_MARKER = re.compile(r"[<|]\S*")


class CallReader:
    """Reads the frame of a call, starts the call, and makes what reads its arguments.

    collected: the text of a name, key or header so far.
    opened: the marker that led to the present state.
    value, grammar: what reads the text of the present state; None where it is read otherwise.
    header_target: what the last header leads to.
    declared_only: the call counts only if its function is declared.
    dropped_calls: how many headers have named a function whose call is dropped.
    outside: the state that ends a call because all text begins there.
    """

    def __init__(self, table: CompiledFormat, shown: ShownText) -> None:
        self._table: CompiledFormat
        self._format: Format
        self.use(table)
        self._shown = shown
        self._calls = shown.calls
        self._key = ""  # of the argument whose value is due
        self._lacks_quote = False  # whether its header does
        self._lacks_end = False  # whether the end of all calls ends the call
        self._named: tuple[str, str | None] | None = None  # the name and id, before the call starts
        # The value that the next key has ended, and that one's marker.
        self._unended: tuple[SchemaValue, str] | None = None
        self.collected = self.opened = ""
        self.value: SchemaValue | None = None
        self.grammar: IncrementalGrammar | None = None
        self.header_target: State | Jump = State.TOOL_SECTION
        self.declared_only = False
        self.dropped_calls = 0

    def use(self, table: CompiledFormat) -> None:
        """Read calls by `table` from now on, another form of the same calls."""
        self._table, self._format = table, table.grammar
        self.outside = frozenset({State.IGNORED} & {table.initial_state})

    def enter(self, state: State) -> Callable[[str], bool | None] | None:
        """Get ready for the text of `state`.

        Return what takes a text without markers, or returns False; None in states that need more.
        """
        self.collected = ""
        self.value = self.grammar = None
        calls = self._calls
        if state in GRAMMAR_STATES:
            self.grammar = build_grammar(state, self._format, calls)
            return self.grammar.take_run
        if state not in VALUE_STATES:
            return None
        breaks = self._table.call_spelling.most_breaks
        self.value = begin_value(calls, self._format, state, self._key, breaks)
        if self._lacks_quote:
            calls.malformed("invalid_key")
        self._key, self._lacks_quote = "", False
        return self.value.feed

    def needs_quote(self, state: State, marker: str, target: State | Jump) -> bool:
        """Whether a marker in a key that a quote has opened is no end of it: it has another one."""
        quote = self.opened[-1:]
        is_end = state is State.KEY and target in VALUE_STATES
        return is_end and quote in ("'", '"') and marker[0] != quote

    def find_target(self, marker: str, state: State, target: State | Jump) -> State | Jump | None:
        """Return where a marker leads from `state`; None: it is text.

        After a name it begins a frame again. Whole call objects stand only where no name has begun.
        """
        if marker in self._table.doubled.get(state, ()) and not self._shown.is_doubled(marker):
            return state if state is State.NAME else None
        if state is not State.NAME:
            return target
        if self.collected.strip():
            return None if target is State.JSON_CALLS else target
        takes_objects = target is State.ARGUMENTS and State.JSON_CALLS in self._format.states
        return State.JSON_CALLS if takes_objects else target

    def find_state(self, target: State | Jump) -> State:
        """Return the state that a target leads to now."""
        if target is Jump.BY_HEADER:
            target = self.header_target
            self._shown.begin_message(target)
            if target is State.CONTENT and not self._format.has_channels:
                target = self._shown.state  # the header interrupts a text
        return target if isinstance(target, State) else self._shown.resume_text()

    def find_value(self, text: str) -> int | None:
        """Return where in `text` a value begins, whose marker is missing; None if none does."""
        if self.opened not in self._table.key_ends or not self._calls.open:
            return None
        space = skip_space(text, 0)
        if not space:
            self._calls.ledger.note(Slip.MARK)
        return space

    def leave(
        self, state: State, target: State | Jump, marker: str = "", *, opens: bool = False
    ) -> bool:
        """Finish what `state` has read, for `target`; return False to reject the call.

        marker: leads there; "" at the end of the output. opens: it opens a call.
        """
        if opens or target is State.CONTENT:
            self._calls.show_words()
        self._note_slip(state, target, marker)
        if state is State.NAME:
            return self._leave_name(target)
        if state is State.IGNORED:
            return self.is_named or not self._ends_nameless(target)
        if state is State.HEADER:
            return self._read_header(self.collected.strip())
        if state is State.KEY:
            self.end_frame()
            self._calls.ledger.drop_stray()
            self._key = self._end_key(target, marker)
            self._end_unended(self._key)
        elif self.value is not None:
            self._leave_value(state, self.value, target, marker)
        elif self.grammar is not None and self.grammar.status is not Status.DONE:
            self.grammar.close()
            return self.grammar.status is not Status.NOT_A_CALL
        return True

    def _leave_value(
        self, state: State, value: SchemaValue, target: State | Jump, marker: str
    ) -> None:
        """End a value; the next parameter's start does so only once its key is known."""
        if target in _KEYS:
            self._unended = value, marker
            return
        if state is State.JSON and value.is_text:
            self._calls.ledger.note(Slip.MARK)  # its quotes are missing
        value.finish()

    def _ends_nameless(self, target: State | Jump) -> bool:
        """Whether a call of a section has ended in front of its name."""
        return self._shown.in_call and target in (State.TOOL_SECTION, Jump.RETURN)

    def _end_key(self, target: State | Jump, marker: str) -> str:
        """Return the key. White space in front of a tag that begins its value is not part of it.

        Such a tag shows that the key's own end is missing, if the format has one.
        """
        ends_key = not marker.startswith("<") or self._table.call_spelling.ends_key(marker)
        if target not in VALUE_STATES or ends_key:
            return self.collected
        self._calls.ledger.note(Slip.MARK)
        return self.collected.strip()

    def _end_unended(self, key: str | None) -> None:
        """End the value in front of `key`, which has no end of its own.

        The call stays open if it is empty, or the key is not declared: then it may be a part of the
        value.
        """
        if self._unended is None:
            return
        (value, marker), self._unended = self._unended, None
        calls = self._calls
        is_sure = key is not None and calls.schema.member(key).declared and not value.is_empty
        value.finish(self._table.call_spelling.value_breaks - marker.count("\n"))
        calls.ledger.note(Slip.VALUE_END)
        if not is_sure:
            calls.malformed("swallowed_markup")

    def end_value(self) -> None:
        """End the last value, which has no end of its own, in front of the call's end."""
        value, calls = self.value, self._calls
        if value is None:
            return
        is_empty = value.is_empty
        value.finish(self._table.call_spelling.most_breaks)
        calls.ledger.note(Slip.VALUE_END)
        if is_empty:
            calls.malformed("missing_value")

    def _leave_name(self, target: State | Jump) -> bool:
        if target is State.JSON_CALLS:
            return True  # whole call objects, where there might have been a name
        return self._name(self._format.function.fullmatch(self.collected.strip()))

    def _note_slip(self, state: State, target: State | Jump, marker: str) -> None:
        """Note a doubled mark between parameters, or a call without an end of its own."""
        spelling, is_last = self._table.call_spelling, state is State.PARAMETERS
        # The end of the output, or a marker, comes in place of the call's own end.
        if (
            not marker
            or marker in self._table.call_starts
            or target is State.NAME
            or (is_last and target in CALL_ENDS and spelling.is_foreign_end(marker))
        ):
            self._calls.ledger.note(Slip.CALL_END)
        self._lacks_end = is_last and spelling.has_end and target in _ALL_ENDS
        if state is target and state in _MEMBERS and not self._is_half_tag(marker):
            self._calls.ledger.note(Slip.MARK)

    def _is_half_tag(self, marker: str) -> bool:
        """Whether a marker is the first half of a parameter's tag, and not doubled."""
        return marker != self.opened and self._table.call_spelling.parameter_start.startswith(
            marker
        )

    # The frame.

    @property
    def is_named(self) -> bool:
        """Whether a call has been named that has not started."""
        return self._named is not None

    @property
    def names_declared(self) -> bool:
        """Whether such a call names a declared function."""
        return self._named is not None and self._named[0] in self._calls.functions

    @property
    def has_key(self) -> bool:
        """Whether a parameter has been named whose value has not begun."""
        return bool(self._key)

    @property
    def arguments_start(self) -> tuple[str, ...]:
        """The texts that the arguments begin with, which the grammar reads."""
        if isinstance(self.grammar, XmlElements):
            return (self._format.tag_prefix,)
        return ("{", "(") if self._format.quotes else ("{",)

    def collect(self, state: State, text: str) -> bool:
        """Add to a name, key or header; return False if it cannot be one."""
        collected = self.collected + text
        pattern = None  # which matches every beginning of the text
        if state is State.NAME:
            pattern = self._format.function
        elif state is State.HEADER:
            pattern = self._format.header
        may_be = pattern is None or not (word := collected.strip()) or pattern.fullmatch(word)
        if len(collected) > MAX_MARKUP or not may_be:
            return False
        self.collected = collected
        return True

    def completes_frame(self, state: State, *, opens: bool) -> bool:
        """Start the call if its frame is complete at `state`; return False to reject it.

        opens: the marker opens a call, so this one has no end; its frame may be doubled.
        """
        if self._named is None:
            return state not in VALUE_STATES or self._calls.open
        frame = state in FRAME_STATES and state not in self.outside
        return frame or opens or state is State.NAME or self.start()

    def start(self) -> bool:
        """Start the call that has been named, if any; False if its function is not declared."""
        if self._named is None:
            return True
        (name, call_id), self._named = self._named, None
        if self.declared_only and name not in self._calls.functions:
            return False
        self._shown.start_call(name, call_id)
        if self._lacks_end:
            self._calls.ledger.note(Slip.MARK)
        return True

    def end_frame(self) -> None:
        """Leave the call open if a key has got no value."""
        key, self._key = self._key, ""
        if key:
            self._calls.stray(key + " ", "missing_value")

    def stray(self, text: str) -> None:
        """Take text of the open call where only markers may stand."""
        skips = self._format.skips_words
        if self._calls.stray(text, key=self._key, skips=skips):
            self._key = ""

    def forget(self) -> None:
        """Forget the name: the call is rejected."""
        self._named = None

    def _name(self, match: re.Match[str] | None) -> bool:
        """Note the name of a call, which starts when its frame is complete.

        The one before it starts, unless it has the same name and no end: its frame is doubled.
        """
        if match is None:
            return False
        self.end_frame()
        functions = self._calls.functions
        name = functions.find_name(match["name"], self._format.namespace)
        if (before := self._named) is not None and before[0] != name:
            if not self.start():
                return False
            self._calls.ledger.note(Slip.MARK)  # its end is missing
        if not functions.may_be_name(name, self._table.frame_words):
            return False
        self._named = name, match.groupdict().get("id")
        return True

    def _read_header(self, header: str) -> bool:
        match, self.header_target = self._find_header(header)
        self._end_unended(match.groupdict().get("key") if match is not None else None)
        if match is None:
            self.header_target = self._unread_header(header)
            return True
        groups = match.groupdict()
        if self.header_target in TEXT_STATES or self.header_target is State.IGNORED:
            self.dropped_calls += "name" in groups
            return True
        if "key" in groups:
            self._key = groups["key"]
            self._lacks_quote = header.count('"') % 2 == 1
        return "name" not in groups or self._name(match)

    def _find_header(self, header: str) -> tuple[re.Match[str] | None, State | Jump]:
        """Return the match of the first pattern that reads a header, with its target."""
        for pattern, target in self._table.headers:
            if (match := pattern.search(header)) is not None and (
                "declared" not in pattern.groupindex or match["name"] in self._calls.functions
            ):
                return match, target
        return None, State.TOOL_SECTION

    def unended_message(self, more: str, to: Target) -> tuple[State, str] | None:
        """Return the state and text of the message that a header holds, if it holds one.

        more: what was not collected, of which as much is read as a header may have.
        to: the target of the marker after it. The header's own marker ends no message; in front of
            JSON or parameters, which are read again, stands that marker in a damaged form.
        """
        if to is Jump.BY_HEADER:
            return None
        header = (self.collected + more)[:MAX_MARKUP].lstrip()
        match, state = self._find_header(header)
        text = match.groupdict().get("text") if match is not None else None
        if not text or not isinstance(state, State):
            return None
        if target_state(to) is Jump.BY_HEADER and _DAMAGED_MARKER.fullmatch(text):
            return None
        return state if state in TEXT_STATES else State.CONTENT, text

    def note_marker(self, marker: str) -> None:
        """Note the marker that led to the present state."""
        self.opened = marker

    def demand_declared(self, is_demanded: bool = True) -> None:
        """Let the call count only if its function is declared."""
        self.declared_only = is_demanded

    def keep_open(self) -> bool:
        """Keep the open call in which something was collected that is no key and no header."""
        if not self._keeps_open:
            return False
        self._leave_open(self.collected)
        return True

    def _unread_header(self, header: str) -> State | Jump:
        """Return what a header leads to that no pattern reads: an open call keeps it."""
        if self._keeps_open and self.start() and self._calls.open:
            self._leave_open(header)
            return State.PARAMETERS
        return State.TOOL_SECTION if State.TOOL_SECTION in self._format.states else Jump.RETURN

    @property
    def _keeps_open(self) -> bool:
        checks = self._calls.stops_repair is not None
        return checks and State.PARAMETERS in self._format.states

    def _leave_open(self, text: str) -> None:
        self._calls.malformed("extra_text")
        self._calls.stray(text)

    # The arguments.

    def is_in_argument(self, state: State, held: str) -> bool:
        """Whether an argument has begun and has not ended. held: the lexer's."""
        if self.grammar is not None and self.grammar.in_argument:
            return True
        begins = state in BETWEEN_ARGUMENTS and bool(self._key or held.strip())
        return begins or state in INSIDE_ARGUMENT

    @property
    def held_value(self) -> str:
        """The text of a value that waits for its end."""
        return self.value.held if self.value is not None else self._calls.ledger.stray

    @property
    def held_text(self) -> list[HeldText]:
        """The text that waits, with the reason."""
        # While it is guessing, `_shown` keeps what is collected.
        name = "" if self._shown.is_guessing else self.collected
        value = self.held_value if self.grammar is None else self.grammar.held
        return hold("unfinished name", name) + hold("unfinished value", value)
