"""One engine reads every format: text and marker tokens in, events out.

A format is a table of states and markers (`format.py`); this file knows no
format by name. The text between two markers is scanned once; what could still
be the beginning of a marker waits in `_held`, what could still turn out to be no
call at all in `_markup`, and both have a bound.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from .arguments.incremental_grammar import Status
from .arguments.json_calls import JsonCallGrammar
from .arguments.json_repair import JsonRepairer
from .arguments.python_calls import PythonCallGrammar
from .arguments.schema_value import UNDECLARED, SchemaValue
from .arguments.tool_calls import ToolCallEmitter
from .arguments.xml_elements import XmlElements
from .compiled_format import CompiledFormat
from .events import Content, Event, Reasoning, ToolCallCut
from .format import COMPLETE, TEXT_STATES, Format, Jump, ReuseSuffix, State
from .schema import declared_types

# White space that may turn out to be none of the client's: before the first word, and around calls.
MAX_SPACE = 256
# What may stand between calls and around them, and is nobody's text.
BETWEEN_CALLS = " \t\r\n,;]})"
# The longest name, key or header.
MAX_MARKUP = 1024


class Grammar(Protocol):
    """Reads arguments or calls that end by their own syntax; see `JsonRepairer`."""

    status: Status

    @property
    def in_string(self) -> bool:
        """See `JsonRepairer`."""
        ...

    def read(self, text: str, start: int = 0, *, final: bool = False) -> int:
        """See `JsonRepairer`."""
        ...

    def take_unexpected(self, char: str) -> None:
        """See `JsonRepairer`."""
        ...

    def close(self) -> None:
        """See `JsonRepairer`."""
        ...


GRAMMAR_STATES = frozenset(
    {State.ARGUMENTS, State.ELEMENTS, State.JSON_CALLS, State.PYTHON_CALLS, State.PYTHON_LINES}
)
VALUE_STATES = frozenset({State.VALUE, State.STRING, State.JSON})
COLLECTED_STATES = frozenset({State.HEADER, State.NAME, State.KEY})
# Reasoning, and what may lead to it: no stop string counts there.
UNSTOPPED = frozenset({State.REASONING, State.REASONING_OPENED, State.HEADER})
# The first text of these is that of the state behind it.
FIRST_STATES = {State.START: State.CONTENT, State.REASONING_OPENED: State.REASONING}
# The event of text in the states where it needs no further reading.
PLAIN_EVENTS: dict[State, type[Reasoning | Content]] = {
    State.CONTENT: Content,
    State.REASONING: Reasoning,
}
# Coming here, a call that is open has ended.
OUTSIDE_CALLS = TEXT_STATES | {State.TOOL_SECTION, State.NAME}


class LinearParser:
    """Parses the output of one choice by a table. See `StreamParser`.

    A marker token must be fed alone, with its own text or none.
    state: what the first token is, if the prompt has decided that.
    """

    def __init__(
        self,
        table: CompiledFormat,
        parameters: dict[str, dict[str, object]],
        state: State | None = None,
    ) -> None:
        self._table = table
        self._format: Format = table.grammar
        self._events: list[Event] = []
        self._calls = ToolCallEmitter(self._events, parameters)
        self._held = ""
        self._final = False
        self._space = ""  # white space in front of text, or behind a call
        self._after_call = False
        self._opening = ""  # the marker that seems to begin a call
        self._markup: list[str] | None = None  # what followed it, while it may still be text
        self._calls_before = -1
        self._rescan = ""  # text that was no call after all
        self._collected = ""  # of a name, key or header
        self._key = ""
        self._route = State.TOOL_SECTION
        self._grammar: Grammar = JsonRepairer(self._calls.arguments)
        self._value = SchemaValue(self._calls.arguments, UNDECLARED["string"], "")
        self._text_state = State.CONTENT
        self.reasoning_tokens = 0
        self._enter(state or table.initial_state)

    @property
    def state(self) -> State:
        """What the next text is, as far as is known."""
        return self._state

    @property
    def token_aligned(self) -> bool:
        """See `StreamParser`."""
        return bool(self._table.ids or self._table.parts)

    @property
    def in_reasoning(self) -> bool:
        """See `StreamParser`."""
        return self._state in UNSTOPPED

    @property
    def waiting(self) -> int:
        """How many characters are held back at present, at most `MAX_WAITING` and a marker."""
        markup = sum(map(len, self._markup)) + len(self._opening) if self._markup is not None else 0
        value = len(self._value.held) if self._state in VALUE_STATES else 0
        return len(self._held) + len(self._space) + len(self._collected) + markup + value

    def reads_together(self, token_ids: Sequence[int]) -> bool:
        """See `StreamParser`."""
        if len(token_ids) == 1:
            return True
        # A call in the midst of reasoning may end, and reasoning go on, with any character.
        in_call_of_reasoning = (
            self._text_state is State.REASONING and self._state not in TEXT_STATES
        )
        counts = in_call_of_reasoning or self._state in self._table.counted
        return not counts and self._table.alone.isdisjoint(token_ids)

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        """See `StreamParser`. Raises ValueError if a marker token comes with other tokens."""
        if (
            text
            and self._fast_event is not None
            and not (self._held or self._space or self._after_call)
        ):
            # What most tokens are: text of an answer, without anything to look out for.
            scanner = self._scanner
            if self._table.alone.isdisjoint(token_ids) and (
                scanner is None or not scanner.running.search(text)
            ):
                if self._state is State.REASONING:
                    self.reasoning_tokens += len(token_ids)
                return [self._fast_event(text)]
        marker = self._table.ids.get(token_ids[0]) if token_ids else None
        if marker is None and token_ids and self._table.parts:
            part = self._table.parts.get(token_ids[0], "")
            text = text if text.endswith(part) else text + part  # special tokens are hidden
        if marker is not None:
            if len(token_ids) > 1:
                raise ValueError(f"the marker token {token_ids[0]} ({marker!r}) must be fed alone")
            self._token(marker, text)
        else:
            if text:
                self._read(text)
            if self._state in (State.REASONING, State.REASONING_OPENED):
                self.reasoning_tokens += len(token_ids)
        return self._take()

    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        """See `StreamParser`. What `cut` left of a call that shows nowhere is reported as `ToolCallCut`."""
        events = self.feed(text, token_ids)
        if cut and self._state not in TEXT_STATES:
            self._report_cut()
        else:
            self._flush()
            self._finish_open()
        return events + self._take()

    def _take(self) -> list[Event]:
        if not self._events:
            return []
        events = self._events
        self._events = self._calls.events = []
        return events

    # Reading. A step takes text from `position` on and returns where it got to.

    def _read(self, text: str) -> None:
        if self._held:
            text = self._held + text
            self._held = ""
        position = 0
        while position < len(text):
            position = self._step(text, position)
            if self._rescan:
                text = self._rescan + text[position:]
                self._rescan = ""
                position = 0

    def _scan(self, text: str, position: int) -> int:
        """Read up to the next marker of this state."""
        scanner = self._scanner
        match = None
        if scanner is not None:
            match = (scanner.final if self._final else scanner.running).search(text, position)
        end = len(text) if match is None else match.start()
        if end > position:
            taken = self._on_text(text[position:end])
            if position + taken < end:
                return position + taken
        if match is None:
            return end
        if match.lastindex:
            self._held = match.group()
            return len(text)
        return match.end() - self._follow(match.group())

    def _read_grammar(self, text: str, position: int) -> int:
        """Read what ends by its own syntax."""
        grammar = self._grammar
        start = position
        position = grammar.read(text, position, final=self._final)
        if self._markup is not None:
            self._keep_markup(text[start:position])
        if grammar.status is Status.MORE and position == len(text):
            return position
        match grammar.status:
            case Status.DONE:
                self._step = self._scan
                if COMPLETE in self._markers:
                    self._follow(COMPLETE)
            case Status.UNEXPECTED:
                return self._unstick(text, position)
            case Status.NOT_A_CALL:
                self._rollback()
            case Status.MORE:
                if self._final:
                    grammar.take_unexpected(text[position])
                    return position + 1
                self._held = text[position:]
                return len(text)
        return position

    def _unstick(self, text: str, position: int) -> int:
        """Read on where the grammar cannot: at a marker, or at a character that does not belong there."""
        match = None
        if self._scanner is not None:
            match = (self._scanner.final if self._final else self._scanner.running).match(
                text, position
            )
        if match is None:
            self._grammar.take_unexpected(text[position])
            self._keep_markup(text[position])
            return position + 1
        if match.lastindex:
            self._held = match.group()
            return len(text)
        return match.end() - self._follow(match.group())

    def _token(self, marker: str, text: str) -> None:
        """Read a marker that is one token. text: its own, after what was left of the token before it."""
        in_string = self._step == self._read_grammar and self._grammar.in_string
        if in_string or marker not in self._markers:
            self._token_text(marker, text, in_string=in_string)
            return
        if lead := text.removesuffix(marker):
            self._read(lead)
        self._flush()
        if marker not in self._markers:
            self._token_text(marker, marker if text.endswith(marker) else "", in_string=False)
            return
        kept = self._follow(marker)
        self._read_again()
        if kept:
            self._read(marker[-kept:])

    def _token_text(self, marker: str, text: str, *, in_string: bool) -> None:
        """Read a marker that means nothing here, as text; a hidden one shows only inside calls."""
        if not in_string:
            self._flush()
            if marker in self._markers:  # what was held back has changed the state
                self._token(marker, text)
                return
        if self._state in TEXT_STATES:
            if text:
                self._on_text(text)
            return
        shown = text if text.endswith(marker) else text + marker
        if self._step == self._read_grammar:
            self._read(shown)
        elif self._on_text(shown) < len(shown):
            self._read_again()
            self._token(marker, text)

    def _read_again(self) -> None:
        again, self._rescan = self._rescan, ""
        self._read(again)

    def _flush(self) -> None:
        """Read what is held back: nothing that follows belongs to it."""
        if not self._held:
            return
        self._final = True
        self._read("")
        self._final = False

    # States.

    def _follow(self, marker: str) -> int:
        """Follow `marker` out of this state; return how much of it is the next state's text."""
        to = self._markers[marker]
        target, keep = (to.state, to.length) if isinstance(to, ReuseSuffix) else (to, 0)
        from_text, to_text = self._state in TEXT_STATES, target in TEXT_STATES
        if from_text and to_text and State.CODE_BLOCK in (self._state, target):
            self._show(marker)  # a code block's fence is text, too
        elif from_text and to_text:
            self._space = ""  # white space in front of a marker is part of it
        elif from_text:
            self._text_state = FIRST_STATES.get(self._state, self._state)
            self._begin_markup(marker[: len(marker) - keep])
        elif self._opening or self._calls.index < 0:
            self._keep_markup(
                marker[: len(marker) - keep]
            )  # behind a call, a marker is nobody's text
        if not self._leave(target):
            self._rollback()
            return 0
        if target is Jump.BY_HEADER:
            target = self._route
        if target is Jump.RETURN:
            target = self._text_state
            self._after_call = True
        if target in VALUE_STATES and not self._calls.open:
            self._rollback()  # a parameter of no call
            return 0
        self._enter(target)
        return keep

    def _enter(self, state: State) -> None:
        self._state = state
        self._markers = self._table.markers.get(state, {})
        self._scanner = self._table.scanners.get(state)
        self._step = self._scan
        self._fast_event = PLAIN_EVENTS.get(state)
        if state in OUTSIDE_CALLS:
            self._calls.end()
        if state in TEXT_STATES:
            self._end_markup()
            return
        if self._markup is None and not self._calls.open:
            self._begin_markup("")
        self._space = ""
        self._collected = ""
        if state in GRAMMAR_STATES:
            self._step = self._read_grammar
            self._grammar = self._new_grammar(state)
        elif state in VALUE_STATES:
            self._value = self._new_value(state)

    def _leave(self, target: State | Jump) -> bool:
        """Finish what this state has collected; False if it is no call after all."""
        if self._state is State.NAME:
            if target is State.JSON_CALLS and not self._collected.strip():
                return True  # whole call objects, where there might have been a name
            return self._start_call(self._format.function.fullmatch(self._collected.strip()))
        if self._state is State.HEADER:
            return self._read_header(self._collected.strip())
        if self._state is State.KEY:
            self._key = self._collected.strip()
        elif self._state in VALUE_STATES:
            self._value.finish()
        elif self._state in GRAMMAR_STATES and self._grammar.status is not Status.DONE:
            self._grammar.close()
        return True

    def _start_call(self, match: re.Match[str] | None) -> bool:
        if match is None:
            return False
        self._calls.start(match["name"], match.groupdict().get("id"))
        self._end_markup()
        return True

    def _read_header(self, header: str) -> bool:
        for pattern, state in self._table.headers:
            if (match := pattern.search(header)) is not None:
                self._route = state
                groups = match.groupdict()
                if "key" in groups:
                    self._key = groups["key"]
                return state in TEXT_STATES or "name" not in groups or self._start_call(match)
        self._route = State.TOOL_SECTION
        return True

    def _new_grammar(self, state: State) -> Grammar:
        match state:
            case State.ARGUMENTS:
                return JsonRepairer(self._calls.arguments, self._format.quotes)
            case State.ELEMENTS:
                return XmlElements(self._calls, self._format.tag_prefix)
            case State.JSON_CALLS:
                return JsonCallGrammar(
                    self._calls, self._format.keys, declared_only=self._format.declared_only
                )
            case _:
                bracketed = state is State.PYTHON_CALLS
                return PythonCallGrammar(
                    self._calls, bracketed=bracketed, declared_only=self._format.declared_only
                )

    def _new_value(self, state: State) -> SchemaValue:
        match state:
            case State.STRING:
                kinds = UNDECLARED["string"]
            case State.JSON:
                kinds = UNDECLARED["json"]
            case _:
                kinds = (
                    declared_types(self._calls.schema, self._key)
                    or UNDECLARED[self._format.undeclared_type]
                )
        self._calls.member(self._key)
        return SchemaValue(self._calls.arguments, kinds, self._format.strip)

    # Text between markers.

    def _on_text(self, text: str) -> int:
        """Take text without markers; return how much of it, if the rest must be read in another state."""
        state = self._state
        if state in TEXT_STATES:
            first = FIRST_STATES.get(state)
            if first is not None and not self._only_space(text):
                self._enter(first)
                return 0
            self._show(text)
        elif state in VALUE_STATES:
            self._value.feed(text)
        elif state in COLLECTED_STATES:
            collected = self._collected + text
            if len(collected) > MAX_MARKUP or not self._may_be(collected.strip()):
                return self._rollback()
            self._collected = collected
            self._keep_markup(text)
        elif not self._calls.open and state is not State.IGNORED:
            text, whole = text[: len(text) - len(text.lstrip(BETWEEN_CALLS))], text
            self._keep_markup(text)
            if text != whole:
                self._rollback()
        return len(text)

    def _may_be(self, name: str) -> bool:
        """Whether what was collected may be the beginning of a name, if it is to be one."""
        return (
            self._state is not State.NAME
            or not name
            or self._format.function.fullmatch(name) is not None
        )

    def _only_space(self, text: str) -> bool:
        return not text.strip() and len(self._space) + len(text) <= MAX_SPACE

    def _show(self, text: str) -> None:
        if self._space:
            text = self._space + text
            self._space = ""
        if self._after_call or self._state in FIRST_STATES:
            if not text.strip() and len(text) <= MAX_SPACE:
                self._space = text
                return
            self._after_call = False
        self._events.append(Reasoning(text) if self._state is State.REASONING else Content(text))

    # ToolCallEmitter that are none, and calls that are not whole.

    def _begin_markup(self, opening: str) -> None:
        self._opening = opening
        self._markup = []
        self._calls_before = self._calls.index

    def _end_markup(self) -> None:
        self._opening = ""
        self._markup = None

    def _keep_markup(self, text: str) -> None:
        """ReuseSuffix markup until the call has begun: it may turn out to be text."""
        if self._markup is None:
            return
        if self._calls.index != self._calls_before:
            self._end_markup()
        elif text:
            self._markup.append(text)

    def _rollback(self) -> int:
        """Show the marker of what looked like a call, and have the rest read again as text; returns 0."""
        opening, self._rescan = self._opening, "".join(self._markup or ())
        self._after_call = self._calls.index >= 0
        self._enter(self._text_state)
        if opening:
            self._show(opening)
        return 0

    def _finish_open(self) -> None:
        """End the output: what has not become a call is text, and an open call is closed."""
        while self._markup is not None and self._state not in TEXT_STATES | {State.IGNORED}:
            if self._calls.index >= 0 and not (self._opening + "".join(self._markup)).strip(
                BETWEEN_CALLS
            ):
                return
            self._rollback()
            self._read_again()
            self._flush()
        if self._calls.open:
            self._leave(State.CONTENT)
            self._calls.end()
        elif self._space and self._calls.index < 0:
            self._after_call = False
            self._events.append(Content(self._space))

    def _report_cut(self) -> None:
        """Report the call that a limit has cut, with what is held back of it."""
        self._keep_markup("")
        if self._markup is not None and self._state is not State.IGNORED:
            held = self._opening + "".join(self._markup) + self._held
            if held.strip(BETWEEN_CALLS):
                self._events.append(ToolCallCut(None, held))
        elif self._calls.open or self._held:
            held = self._value.held if self._state in VALUE_STATES else ""
            self._events.append(ToolCallCut(self._calls.index, held + self._held))
