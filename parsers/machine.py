"""The linear parser: one state machine for the output formats of all models.

How it works
------------
A `Format` is a table. Each state says what the text in it is, and lists the markers that end it
together with the states they lead to. `LinearParser` runs such a table over a model's output; it
knows no format by name. It owns five objects, and each of them knows only what is its own:

    `Lexer`       lexer.py        cuts the output into markers and text
    `CallReader`  call_reader.py  reads the name, the keys and the values of a call
    `GrammarReader`  grammar_reader.py  lets a grammar read calls or arguments
    `ShownText`   shown_text.py   shows text and calls; gives back what only looked like a call
    `ConsideredCalls`  considered_call.py  lets a call in open reasoning wait: it may be a thought

These are the states that a table may have, and the usual ways between them:

                    a marker that opens calls                 the value's marker
    text states ────────────────────────────► NAME ──► KEY ◄────────────────────► value states
    START            TOOL_SECTION, HEADER,    │  ▲      ▲                         VALUE
    CONTENT          PARAMETERS, IGNORED      │  │      │ the next parameter      STRING
    CODE_FENCE       stand where the format   │  │      ▼                         JSON
    CODE_BLOCK       has something in         │  │   PARAMETERS
    REASONING_OPENED between                  │  │      │ the call's end
    REASONING                                 │  └── TOOL_SECTION ◄─────┐
      ▲    ▲                                  ▼                        │
      │    │     the syntax is complete,  grammar states  the call's end
      │    └───── or the call's end ◄──── ARGUMENTS ELEMENTS ──────────┘
      │          (`Jump.RETURN`)          JSON_CALLS CALL_LIST PYTHON_CALLS PYTHON_LINES
      │
      └─ rejected: from any state to the right, as long as the call has not begun

`python -m backedge.testing.diagram NAME` draws the table of any format.
The machine needs no stack: formats nest to one level only, text, calls within it, parameters within
a call. It remembers the text that the calls interrupted, `ShownText.state`, to which `Jump.RETURN`
goes back. Real nesting occurs in arguments only, and there a grammar with a stack of its own reads
until its syntax has ended; then the state's marker `COMPLETE` is followed.

What the states do with their text:

- text states show it (`ShownText.show`);
- NAME, KEY and HEADER collect it, and the next marker uses it (`CallReader.leave`);
- value states pass it to a `SchemaValue`, which writes it as the JSON the schema asks for;
- grammar states let an `IncrementalGrammar` read it;
- IGNORED drops it, unless a mark in it shows that a call was there, which cannot be read;
- in TOOL_SECTION and PARAMETERS only white space and `BETWEEN_CALLS` may stand;
- all else rejects the call, which becomes text again (`_reject`); in a section of several calls and
  in a list it costs itself alone, and the section goes on.

Invariants, each of them tested for every format (tests/parsers/test_fuzz.py):

- Nothing is lost: every character is shown, part of a call, or part of the syntax around it.
- The events, joined, do not depend on how the output was cut into pieces.
- What waits (`held`) is bounded, whatever the model writes.
- No output raises an exception.

The cost: one regular expression per piece of text, and a constant number of steps per marker. Most
tokens are text of an answer, or of a value, without anything to look out for. `feed` handles these
without a further call; keep it so (benchmarks/parsers.py measures it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from typing_extensions import override

from ..base.json_types import JsonObject
from ..base.limits import MAX_MARKUP
from .arguments.incremental_grammar import IncrementalGrammar
from .base import StreamParser
from .call_reader import CallReader
from .compiled_format import CODE_MARKERS, CompiledFormat
from .considered_call import ConsideredCalls
from .events import Content, Event, Reasoning, ToolCallCut
from .format import (
    CALL_ENDS,
    CALL_HEADS,
    CALL_STATES,
    CODE_STATES,
    COLLECTED_STATES,
    COMPLETE,
    FIRST_STATES,
    OUTSIDE_CALLS,
    TEXT_STATES,
    UNSTOPPED,
    Jump,
    ReuseSuffix,
    State,
    Target,
    target_state,
)
from .grammar_reader import GrammarReader
from .held_back import HeldText
from .lexer import Lexer, Reader
from .shown_text import BETWEEN_CALLS, ShownText

# States whose end is no news if the output ends there.
_ENDS_QUIETLY = TEXT_STATES | {State.IGNORED}


class LinearParser(StreamParser, Reader):
    """Parses the output of one choice by a table.

    A marker token must be fed alone, with its own text or none, and in front of it text that the
    detokenizer has kept, if any; `feed` raises ValueError if it comes with other tokens. If
    generation is cut inside a call, `finish` reports the part of the call that no other event has
    as `ToolCallCut`.

    parameters: each declared function's JSON schema by name.
    state: the state of the first token, if the prompt has decided that.
    guesses: malformed calls are repaired by guesses.
    """

    def __init__(
        self,
        table: CompiledFormat,
        parameters: Mapping[str, JsonObject],
        state: State | None = None,
        *,
        guesses: bool = False,
    ) -> None:
        self._table = self._first_form = table
        self._alone = table.alone
        self._lexer = Lexer(table, self)
        markup = table.find_markup(self._lexer.tokens_in_values)
        self._shown = ShownText(parameters, table.grammar.separator, markup, guesses=guesses)
        self._calls = self._shown.calls
        self._call = CallReader(table, self._shown)
        self._thoughts = ConsideredCalls(table, self._lexer, self._shown, self)
        self._grammars = GrammarReader(
            self._call,
            self._lexer,
            self._shown,
            reject=self._reject,
            complete=self._complete,
        )
        self._state: State
        self._plain_tokens = 0  # of reasoning, which the lexer has not counted
        self._rejected = 0
        self._rejected_named = 0  # those that name a declared function
        self._has_token = False  # one of the markers of the call that is being read is a token
        self._ends = False  # nothing follows, so what waits is at most half a marker
        self._take_run: Callable[[str], bool | None] | None
        if table.prefix:
            self._calls.emit(Content(table.prefix))
        self.enter(state or table.initial_state)

    @property
    def state(self) -> State:
        """The state that the next text is in, as far as is known."""
        return self._state

    @property
    def in_string(self) -> bool:
        """Whether the next text belongs to a string of a call."""
        return self._lexer.grammar is not None and self._lexer.grammar.in_string

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
    def reasoning_tokens(self) -> int:
        return self._plain_tokens + self._lexer.reasoning_tokens

    @property
    @override
    def dropped_calls(self) -> int:
        return self._call.dropped_calls

    @property
    @override
    def state_name(self) -> str:
        return self._state.name

    @property
    @override
    def held(self) -> list[HeldText]:
        parts = (self._shown, self._call, self._lexer, self._thoughts)
        return [held for part in parts for held in part.held_text]

    @property
    @override
    def slips(self) -> int:
        return self._calls.slips + self._rejected_named

    @property
    @override
    def rejected_calls(self) -> int:
        return self._rejected

    @property
    @override
    def outside_calls(self) -> bool:
        lexer = self._lexer
        waits = lexer.held or lexer.undecided is not None or self._thoughts.call is not None
        return self._state in TEXT_STATES and not waits

    @override
    def reads_together(self, token_ids: Sequence[int]) -> bool:
        if len(token_ids) == 1:
            return True
        # A call in the midst of reasoning may end, and reasoning go on, with any character.
        in_call_of_reasoning = (
            self._shown.state is State.REASONING and self._state not in TEXT_STATES
        )
        counts = in_call_of_reasoning or self._state in self._table.counted
        return not counts and self._alone.isdisjoint(token_ids)

    @override
    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        lexer = self._lexer
        if (
            text
            and not lexer.held
            and lexer.undecided is None
            and self._alone.isdisjoint(token_ids)
        ):
            search = lexer.search
            if search is None or not search(text):
                if (plain := self._shown.plain) is not None:
                    if plain is Reasoning:
                        self._plain_tokens += len(token_ids)
                    return [plain(text)]
                if (take_run := self._take_run) is not None and take_run(text) is not False:
                    return self._calls.take() if self._calls.events else []
        return self._feed_closely(text, token_ids)

    def _feed_closely(self, text: str, token_ids: Sequence[int]) -> list[Event]:
        """Read a piece that has or may have a marker, or whose state takes no run."""
        lexer, calls = self._lexer, self._calls
        if lexer.undecided is None and self._alone.isdisjoint(token_ids):
            lexer.read(text)
            if lexer.counts:
                lexer.count(len(token_ids))
        else:
            for piece in lexer.split(text, token_ids):
                # The text before a marker may begin a call.
                (lexer if self._thoughts.call is None else self._thoughts).feed(*piece)
        return calls.take() if calls.events else []

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        events, lexer = self.feed(text, token_ids), self._lexer
        self._thoughts.finish(cut=cut)
        lexer.finish(cut=cut)
        self._ends = True
        if self._state is State.HEADER:
            self._end_header(cut=cut)
        unfinished = cut or (self._calls.open and self._is_in_argument())
        if unfinished and self._state not in TEXT_STATES:
            self._report_cut()
        else:
            if cut and (half := lexer.drop_half_marker()):
                self._calls.emit(ToolCallCut(None, half))
            lexer.flush()
            if self._state is State.NAME and COMPLETE in lexer.markers:
                self._call.demand_declared()  # a name needs no arguments only then
                self.follow(COMPLETE)
                lexer.read_again()
                lexer.flush()
            self._finish_open()
        return events + self._calls.take()

    def _finish_open(self) -> None:
        """End the output: what has not become a call is text, and an open call is closed."""
        shown = self._shown
        while shown.guess is not None and self._state not in _ENDS_QUIETLY:
            if self._calls.index >= 0 and not shown.guess.text.strip(BETWEEN_CALLS):
                return
            self._reject()
            self._lexer.read_again()
            self._lexer.flush()
        if not self._calls.open:
            shown.finish()
        elif self._is_in_argument():
            self._report_cut()
        else:
            self._call.leave(self._state, State.CONTENT)
            shown.complete_call()

    def _report_cut(self) -> None:
        """Report a call that the end of the output has cut, with what is held back of it."""
        held = self._call.held_value + self._lexer.held
        self._shown.cut(held, shows_guess=self._state is not State.IGNORED)

    def _is_in_argument(self) -> bool:
        return self._call.is_in_argument(self._state, self._lexer.held)

    @override
    def follow(self, marker: str) -> int:
        to = self._lexer.markers[marker]
        leads_to, reused = (to.state, to.length) if isinstance(to, ReuseSuffix) else (to, 0)
        state = self._state
        if state in COLLECTED_STATES and (kept := self._follow_collected(marker, to)) is not None:
            return kept
        if leads_to in CALL_STATES and self._thoughts.begin(marker, state):
            return 0
        if (target := self._call.find_target(marker, state, leads_to)) is None:
            return len(marker) - self.take_text(marker)
        if target is state and self._shown.is_doubled(marker):
            self._shown.keep_doubled(marker)
            return 0
        return self._go(marker, target, reused)

    def _follow_collected(self, marker: str, to: Target) -> int | None:
        """Read a marker in a key or header; None if it is to be followed, else as `follow`."""
        if self._state is State.HEADER and self._end_header(to=to):
            return self.follow(marker) if marker in self._lexer.markers else len(marker)
        if self._call.needs_quote(self._state, marker, target_state(to)):
            return len(marker) - self.take_text(marker)
        return None

    def _go(self, marker: str, target: State | Jump, reused: int) -> int:
        """Go where a marker leads, or reject the call. Return as `follow` does."""
        state, call, shown = self._state, self._call, self._shown
        self._keep_marker(marker, target, marker[: len(marker) - reused])
        opens = marker in self._table.call_starts
        left = call.leave(state, target, marker, opens=opens)
        entered = call.find_state(target) if left else None
        if state is State.HEADER and self._table.grammar.has_channels and not call.has_key:
            shown.drop_header(marker[: len(marker) - reused])
        if entered is None or not call.completes_frame(entered, opens=opens):
            return len(marker) if self._reject(marker=marker) else reused
        if (form := self._table.forms.get(marker)) is not None:
            self._use(form)
        self.enter(entered)
        shown.note_marker(marker)
        call.note_marker(marker)
        return reused

    def _keep_marker(self, marker: str, target: State | Jump, own: str) -> None:
        """Note that a marker is followed. own: the part that is not read again."""
        state, shown = self._state, self._shown
        is_spelled = marker in self._table.spelled
        self._has_token = not is_spelled or (self._has_token and state not in TEXT_STATES)
        if state not in TEXT_STATES:
            if is_spelled and shown.has_words:
                self._call.demand_declared()
            self._keep_inner_marker(target, own, is_spelled=is_spelled)
        elif target not in TEXT_STATES:
            self._call.demand_declared(is_spelled)
            to = self._lexer.markers[marker]
            said = to.said if isinstance(to, ReuseSuffix) else 0
            shown.leave_text(own, said, ends=target in self._call.outside)
        elif marker in CODE_MARKERS and not CODE_STATES.isdisjoint({state, target}):
            shown.show(own)  # a code block's fence is text, too
        else:
            shown.drop_space()

    def _keep_inner_marker(self, target: State | Jump, own: str, *, is_spelled: bool) -> None:
        """Note a marker that does not follow text. is_spelled: no token is in it."""
        shown, ends = self._shown, target in CALL_ENDS
        in_section = self._state is State.TOOL_SECTION and self._table.has_several
        if in_section and target in CALL_HEADS - self._call.outside:
            shown.begin_call(own)
        elif is_spelled or not ends or not shown.has_words:
            shown.keep_marker(own, may_open=is_spelled and not ends)

    def _end_header(self, more: str = "", *, to: Target = State.CONTENT, cut: bool = False) -> bool:
        """Show the message that the header holds, whose own marker is missing; False if none.

        more, to: as for `unended_message`. cut: the output ends here, perhaps within the header.
        """
        message = self._call.unended_message(more, to)
        if message is None or (cut and len(message[1].split()) < 2):  # noqa: PLR2004 - words
            return False
        state, text = message
        self._shown.begin_message(state)
        self.enter(state)
        self._shown.show(text)
        return True

    def _use(self, form: CompiledFormat) -> None:
        """Read the call that begins in its own form, until its text goes on."""
        if form is not self._table:
            self._table = form
            self._lexer.use(form)
            self._call.use(form)
            self._calls.use(form.find_markup(self._lexer.tokens_in_values))

    @override
    def enter(self, state: State) -> None:
        """Go to `state`."""
        self._state = state
        shown, call = self._shown, self._call
        if state in OUTSIDE_CALLS or state in call.outside:
            call.end_frame()
            shown.complete_call()
        if state in TEXT_STATES:
            self._use(self._first_form)
            shown.enter_text(state)
        else:
            shown.enter_markup()
        take_run = call.enter(state)
        self._take_run = self._collect_all if state in COLLECTED_STATES else take_run
        self._lexer.look_for(state, call.grammar)

    def _reject(self, unkept: str = "", marker: str = "") -> bool:
        """Reject the call, the one place where this is done: what was read of it becomes text.

        unkept: what was read of it before `_shown` collected anything. marker: that with which it
        cannot go on. Return whether the section goes on, in which that marker is to be read again.
        """
        again = self._shown.reject_call(marker)
        self._lexer.give_back(unkept + (self._shown.reject() if again is None else again))
        self._rejected += not self._call.declared_only
        self._rejected_named += self._has_token and self._call.names_declared
        self._call.forget()
        self.enter(self._shown.state if again is None else State.TOOL_SECTION)
        return again is not None

    @override
    def take_text(self, text: str) -> int:
        state = self._state
        if self._thoughts.call is not None:
            self._thoughts.consider(text)
        elif state in TEXT_STATES:
            first = FIRST_STATES.get(state)
            if first is not None and not self._shown.is_space(text):
                self.enter(first)
                return 0
            self._shown.show(text)
        elif self._call.value is not None:
            self._call.value.feed(text)
        elif state in COLLECTED_STATES:
            return self._collect(text)
        elif state is State.IGNORED:
            # Channels have text between their messages, which is for no client.
            if not self._table.grammar.has_channels and not self._shown.keep_ignored(text):
                self._reject()
                return 0
        else:
            return self._take_between(text)
        return len(text)

    def _take_between(self, text: str) -> int:
        """Take text where only markers may stand, or a value without its marker."""
        if (space := self._call.find_value(text)) is not None:
            if not space:
                self.enter(State.VALUE)
            return space
        if not self._calls.open:
            return self._skip(text)
        if not self._ends:
            self._call.stray(text)
        return len(text)

    @override
    def end_value(self) -> None:
        self._call.end_value()
        self.enter(State.PARAMETERS)

    def _collect(self, text: str) -> int:
        """Add to a name, key or header; reject the call if it cannot be one."""
        if self._call.collect(self._state, text):
            self._shown.keep(text)
            return len(text)
        room = MAX_MARKUP - len(self._call.collected)
        if self._state is State.HEADER and len(text) > room and self._end_header(text):
            return room
        if self._calls.open and self._call.keep_open():
            self.enter(State.PARAMETERS)
            return 0
        # Within a call that is open, `_shown` collects nothing.
        self._reject(self._call.collected if self._shown.guess is None else "")
        return 0

    def _collect_all(self, text: str) -> None:
        if (taken := self._collect(text)) < len(text):
            self._lexer.read_again(text[taken:])

    def _skip(self, text: str) -> int:
        """Skip what may stand between calls; reject the call at anything else."""
        taken = self._shown.skip(text, self._state, is_meant=not self._call.declared_only)
        if taken < len(text):
            self._reject()
        return taken

    @override
    def read_grammar(self, grammar: IncrementalGrammar, text: str, position: int) -> int:
        return self._grammars.read(grammar, text, position)

    def _complete(self) -> None:
        """Go on where the grammar has ended; an empty list after no marker is text."""
        self._take_run = None
        self._lexer.look_for(self._state)
        if self._shown.is_unmarked:
            self._reject()
        elif COMPLETE in self._lexer.markers:
            self.follow(COMPLETE)
