"""The linear parser: one state machine for the output formats of all models.

How it works
------------
A `Format` is a table. Each state says what the text in it is, and lists the markers that end it
together with the states they lead to. `LinearParser` runs such a table over a model's output; it
knows no format by name. Six layers share the work, each a class in a file of its own:

    `MarkerLexer`    marker_lexer.py    cuts the output into markers and text
    `CallRollback`   call_rollback.py   shows text; gives back what only looked like a call
    `OpenStrings`    open_string.py     decides whether a marker token in a string ends it
    `HeldOutput`     held_output.py    tells people what waits, and why
    `GrammarStates`  grammar_states.py lets grammars read arguments
    `LinearParser`   this file          the states, the values they read, `feed`

docs/formats.md shows two tables as diagrams; `python -m backedge.testing.diagram NAME` draws any.
The machine needs no stack: formats nest to one level only, text, calls within it, parameters within
a call. The one thing to remember is the text that the calls interrupted, `_text_state`; the target
`Jump.RETURN` goes back there. Real nesting occurs in arguments only, and there a grammar with a
stack of its own reads until its syntax has ended; then the state's marker `COMPLETE` is followed.

What the states do with their text:

- text states show it (`_show`);
- NAME, KEY and HEADER collect it in `_collected`, and the next marker uses it (`_leave`);
- value states pass it to a `SchemaValue`, which writes it as the JSON the schema asks for;
- grammar states let an `IncrementalGrammar` read it;
- IGNORED drops it; in TOOL_SECTION and PARAMETERS only white space and `BETWEEN_CALLS` may stand.

A table lists what may happen. Whatever else happens rejects the call, and what was read of it
becomes text again (`_rollback`).

Invariants, each of them tested for every format (tests/parsers/test_fuzz.py):

- Nothing is lost: every character is shown, part of a call, or part of the syntax around it.
- The events, joined, do not depend on how the output was cut into pieces.
- What waits (`waiting`) is bounded, whatever the model writes.
- No output raises an exception.

The cost: one regular expression per piece of text, and a constant number of steps per marker. Most
tokens are text of an answer, or of a value, without anything to look out for. `feed` handles these
without a further call; keep it so (benchmarks/parsers.py measures it).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from typing_extensions import override

from ..base.json_types import JsonObject
from .arguments.incremental_grammar import IncrementalGrammar, Status
from .arguments.json_repair import JsonRepairer
from .arguments.schema_value import STRING, SchemaValue
from .arguments.wrapped_arguments import WrappedArguments
from .base import StreamParser
from .call_grammars import GRAMMAR_STATES, build_grammar
from .call_rollback import BETWEEN_CALLS, FIRST_STATES, MAX_MARKUP
from .compiled_format import CODE_MARKERS, CompiledFormat
from .events import Content, Event, Reasoning, ToolCallCut
from .format import (
    BETWEEN_ARGUMENTS,
    CALL_ENDS,
    CODE_STATES,
    COLLECTED_STATES,
    COMPLETE,
    FRAME_STATES,
    INSIDE_ARGUMENT,
    OUTSIDE_CALLS,
    REASONING_STATES,
    TEXT_STATES,
    UNSTOPPED,
    VALUE_STATES,
    Format,
    Jump,
    ReuseSuffix,
    State,
    target_state,
)
from .grammar_states import GrammarStates
from .parameter_values import begin_value

# The event of text in the states where it needs no further reading.
PLAIN_EVENTS: dict[State, type[Reasoning | Content]] = {
    State.CONTENT: Content,
    State.REASONING: Reasoning,
}


class LinearParser(GrammarStates, StreamParser):
    """Parses the output of one choice by a table.

    A marker token must be fed alone, with its own text or none; `feed` raises ValueError if it
    comes with other tokens. If generation is cut inside a call, `finish` reports the part of the
    call that no other event has as `ToolCallCut`.

    parameters: each declared function's JSON schema by name.
    state: the state of the first token, if the prompt has decided that.
    """

    reasoning_tokens = 0

    def __init__(
        self,
        table: CompiledFormat,
        parameters: Mapping[str, JsonObject],
        state: State | None = None,
    ) -> None:
        super().__init__(table, parameters)
        self._alone = table.alone
        self._format: Format = table.grammar
        # By state, what matches every beginning of its text.
        self._beginnings = {
            State.NAME: self._format.function,
            State.HEADER: self._format.header,
        }
        self._collected = ""  # of a name, key or header
        self._key = ""  # of the argument whose value is due
        self._header_state: State | Jump = State.TOOL_SECTION  # what the last header leads to
        self._grammar: IncrementalGrammar = JsonRepairer(self._calls.arguments)
        self._value: SchemaValue | WrappedArguments = SchemaValue(self._calls.arguments, STRING, "")
        self._feed_value: Callable[[str], None] | None  # in a value state
        self._plain_event: type[Reasoning | Content] | None
        self._counts_reasoning: bool
        if table.prefix:
            self._events.append(Content(table.prefix))
        self._enter(state or table.initial_state)

    @property
    def state(self) -> State:
        """The state that the next text is in, as far as is known."""
        return self._state

    @property
    @override
    def token_aligned(self) -> bool:
        return bool(self._table.ids or self._table.parts)

    @property
    @override
    def in_reasoning(self) -> bool:
        return self._state in UNSTOPPED

    @property
    @override
    def state_name(self) -> str:
        return self._state.name

    @override
    def reads_together(self, token_ids: Sequence[int]) -> bool:
        if len(token_ids) == 1:
            return True
        # A call in the midst of reasoning may end, and reasoning go on, with any character.
        in_call_of_reasoning = (
            self._text_state is State.REASONING and self._state not in TEXT_STATES
        )
        counts = in_call_of_reasoning or self._state in self._table.counted
        return not counts and self._alone.isdisjoint(token_ids)

    @override
    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        if (
            text
            and self._plain_event is not None
            and not (self._held or self._space or self._after_call)
        ):
            # What most tokens are: text of an answer, without anything to look out for.
            scanner = self._scanner
            if self._alone.isdisjoint(token_ids) and (
                scanner is None or not scanner.running.search(text)
            ):
                if self._counts_reasoning:
                    self.reasoning_tokens += len(token_ids)
                return [self._plain_event(text)]
        if self._undecided is None and self._alone.isdisjoint(token_ids):
            # Text in any other state: what `_feed_piece` does where no token is a marker.
            scanner = self._scanner
            if (
                self._feed_value is not None
                and not self._held
                and (scanner is None or not scanner.running.search(text))
            ):
                self._feed_value(text)  # what `_read` would come to
            elif text and not self._takes_run(text):
                self._read(text)
            if self._counts_reasoning:
                self.reasoning_tokens += len(token_ids)
        elif self._undecided is None:
            self._feed_piece(text, token_ids)
        else:
            self._feed(text, token_ids)
        return self._take() if self._events else []

    @override
    def _feed_piece(self, text: str, token_ids: Sequence[int]) -> None:
        """Read a piece of output behind which nothing is undecided."""
        if token_ids:
            marker = self._table.ids.get(token_ids[0])
            if marker is not None:
                if len(token_ids) > 1:
                    raise ValueError(
                        f"the marker token {token_ids[0]} ({marker!r}) must be fed alone"
                    )
                if marker in self._markers and self._in_string():
                    self._begin_undecided(marker, (text, token_ids), self._grammar.string_end)
                else:
                    self._on_token(marker, text)
                return
            if self._table.parts:
                part = self._table.parts.get(token_ids[0], "")
                text = text if text.endswith(part) else text + part  # special tokens are hidden
        if text:
            self._read(text)
        if self._counts_reasoning:
            self.reasoning_tokens += len(token_ids)

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        events = self.feed(text, token_ids)
        self._finish_undecided(cut=cut)
        unfinished = cut or (self._calls.open and self._in_argument)
        if unfinished and self._state not in TEXT_STATES:
            self._report_cut()
        else:
            if cut:
                self._drop_half_marker()
            self._flush()
            if self._state is State.NAME and COMPLETE in self._markers:
                self._declared_only = True  # only then a name may stand alone
                self._follow(COMPLETE)
                self._read_again()
                self._flush()
            self._finish_open()
        return events + self._take()

    def _take(self) -> list[Event]:
        events = self._events
        self._events = self._calls.events = []
        return events

    # Transitions.

    @override
    def _follow(self, marker: str) -> int:
        to = self._markers[marker]
        if (
            self._state is State.NAME
            and self._collected.strip()
            and target_state(to) is State.JSON_CALLS
        ):
            # Whole call objects stand only where no name has begun; this is part of the name.
            return len(marker) - self._collect(marker)
        target, reused = (to.state, to.length) if isinstance(to, ReuseSuffix) else (to, 0)
        if self._state in TEXT_STATES:
            self._leave_text(marker, reused, target)
        elif self._opening or self._calls.index < 0:
            self._keep_markup(marker[: len(marker) - reused])
        elif target not in CALL_ENDS and marker in self._table.spelled and not self._calls.open:
            # After a call, its end is nobody's text; what begins another one may be.
            self._begin_markup(marker[: len(marker) - reused])
        state = self._find_state(target) if self._leave(target) else None
        if state is None or not self._completes_frame(state):
            self._rollback()
        else:
            self._enter(state)
        return reused

    def _leave_text(self, marker: str, reused: int, target: State | Jump) -> None:
        if target not in TEXT_STATES:
            self._text_state = FIRST_STATES.get(self._state, self._state)
            self._declared_only = marker in self._table.spelled
            self._begin_markup(self._space + marker[: len(marker) - reused])
        elif marker in CODE_MARKERS and not CODE_STATES.isdisjoint({self._state, target}):
            self._show(marker[: len(marker) - reused])  # a code block's fence is text, too
        else:
            self._space = ""  # white space in front of a marker is part of it

    def _find_state(self, target: State | Jump) -> State:
        """Return the state that a target leads to now."""
        if target is Jump.BY_HEADER:
            target = self._header_state
            self._begin_message(target)
        if isinstance(target, State):
            return target
        self._after_call = True
        return self._text_state

    @override
    def _enter(self, state: State) -> None:
        self._look_for(state)
        # A message's first text goes through `_show`.
        self._plain_event = PLAIN_EVENTS.get(state) if self._message is None else None
        self._feed_value = None
        self._counts_reasoning = state in REASONING_STATES
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
            self._step = self._read_grammar if self._named is None else self._await_arguments
            self._grammar = build_grammar(state, self._format, self._calls)
        elif state in VALUE_STATES:
            self._value = begin_value(self._calls, self._format, state, self._key)
            self._feed_value = self._value.feed
            self._key = ""
        elif state in COLLECTED_STATES:
            self._feed_value = self._collect_all

    @override
    def _leave(self, target: State | Jump) -> bool:
        state = self._state
        if state is State.NAME:
            if target is State.JSON_CALLS:
                return True  # whole call objects, where there might have been a name
            return self._start_call(self._format.function.fullmatch(self._collected.strip()))
        if state is State.HEADER:
            return self._read_header(self._collected.strip())
        if state is State.KEY:
            self._key = self._collected.strip()
        elif state in VALUE_STATES:
            self._value.finish()
        elif state in GRAMMAR_STATES and self._grammar.status is not Status.DONE:
            self._grammar.close()
            return self._grammar.status is not Status.NOT_A_CALL
        return True

    def _start_call(self, match: re.Match[str] | None) -> bool:
        """Note the name of a call, which starts when its frame is complete."""
        if match is None or not self._begin_call():
            return False
        self._named = match["name"], match.groupdict().get("id")
        return True

    def _completes_frame(self, state: State) -> bool:
        """Start the call if its frame is complete at `state`; False if that cannot follow."""
        if self._named is None:
            return state not in VALUE_STATES or self._calls.open
        return state in FRAME_STATES or self._begin_call()

    def _begin_call(self) -> bool:
        """Start the call that has been named, if any; False if its function is not declared."""
        if self._named is None:
            return True
        (name, call_id), self._named = self._named, None
        if self._declared_only and not self._calls.declares(name):
            return False
        self._calls.start(name, call_id)
        self._end_markup()
        return True

    def _read_header(self, header: str) -> bool:
        for pattern, state in self._table.headers:
            if (match := pattern.search(header)) is not None:
                self._header_state = state
                groups = match.groupdict()
                if "key" in groups:
                    self._key = groups["key"]
                return "name" not in groups or state in TEXT_STATES or self._start_call(match)
        self._header_state = State.TOOL_SECTION
        return True

    # The text in the states.

    @override
    def _on_text(self, text: str) -> int:
        state = self._state
        if state in TEXT_STATES:
            first = FIRST_STATES.get(state)
            if first is not None and not self._only_space(text):
                self._enter(first)
                return 0
            self._plain_event = PLAIN_EVENTS.get(state)
            self._show(text)
        elif state in VALUE_STATES:
            self._value.feed(text)
        elif state in COLLECTED_STATES:
            return self._collect(text)
        elif not self._calls.open and state is not State.IGNORED:
            return self._skip(text)
        return len(text)

    def _collect(self, text: str) -> int:
        """Add to a name, key or header; reject the call if it cannot be one."""
        collected = self._collected + text
        pattern = self._beginnings.get(self._state)
        may_be = pattern is None or not (word := collected.strip()) or pattern.fullmatch(word)
        if len(collected) > MAX_MARKUP or not may_be:
            unkept = self._collected if self._markup is None else ""  # in a call that is open
            self._rollback()
            self._rescan = unkept + self._rescan
            return 0
        self._collected = collected
        self._keep_markup(text)
        return len(text)

    def _collect_all(self, text: str) -> None:
        if self._collect(text) < len(text):
            text, self._rescan = self._rescan + text, ""
            self._read(text)

    def _skip(self, text: str) -> int:
        """Skip what may stand between calls; reject the call at anything else."""
        if self._state is State.TOOL_SECTION and self._keeps_words(text):
            return len(text)
        skipped = text[: len(text) - len(text.lstrip(BETWEEN_CALLS))]
        self._keep_markup(skipped)
        if skipped != text:
            self._rollback()
        return len(skipped)

    @property
    @override
    def _in_argument(self) -> bool:
        if self._state in GRAMMAR_STATES and self._grammar.in_argument:
            return True
        begins = self._state in BETWEEN_ARGUMENTS and bool(self._key or self._held.strip())
        return begins or self._state in INSIDE_ARGUMENT

    @override
    def _report_cut(self) -> None:
        self._keep_markup("")  # forgets what a call has used
        if self._markup is not None and self._state is not State.IGNORED:
            held = self._collected_markup() + self._held
            if held.strip(BETWEEN_CALLS):
                self._events.append(ToolCallCut(None, held))
        elif self._calls.open or self._held:
            held = self._value.held if self._state in VALUE_STATES else ""
            self._events.append(ToolCallCut(self._calls.index, held + self._held))
