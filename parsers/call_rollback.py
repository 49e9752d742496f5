"""Text for the client, and rejected calls: the middle layer of `LinearParser`.

How it works
------------
A marker that opens a call is a guess. `<tool_call>` in an answer may begin a call, or the model
may be explaining how its calls look. Until the call's frame is complete nothing has been sent, so
the parser can still change its mind:

- `_begin_markup` notes the marker that left the text (`_opening`), and from then on
  `_keep_markup` collects everything read since (`_markup`).
- As soon as the call emitter has numbered a new call the guess was right. The next
  `_keep_markup` or `_end_markup` drops what was collected; from here on nothing is undone.
- `_rollback` rejects the call instead: the parser returns to the text it came from, the opening
  marker is shown as text, and what was collected goes into `_rescan`, to be read again as text.
  It may hold the opening of a real call, and then the same starts again there.
- `_finish_open` does the same at the end of the output, as often as needed.

Each rollback turns at least the opening marker into text, so reading again comes to an end. It
costs what is read again, and a model may write thousands of markers that begin no call: an answer
may have `MAX_READ_AGAIN` characters read again, and then a rejected call is text as a whole. Names,
keys and headers are limited to `MAX_MARKUP` characters and the grammars have limits of their own:
what waits here is bounded by them.

White space around calls and in front of an answer belongs to the syntax, not to the text. `_show`
holds it back in `_space`, at most `MAX_SPACE` characters: text that follows brings it back, a
marker drops it.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping

from ..base.json_types import JsonObject
from .arguments.tool_calls import ToolCallEmitter
from .compiled_format import FENCE, CompiledFormat
from .events import Content, Event, Reasoning, ToolCallCut
from .format import TEXT_STATES, Jump, State, target_state
from .marker_lexer import MarkerLexer

# How much white space before the first word and after a call may turn out not to be text.
MAX_SPACE = 256
# Characters between and around calls that are nobody's text.
BETWEEN_CALLS = " \t\r\n,;]})"
# The longest name, key or header.
MAX_MARKUP = 1024
# How many characters of rejected calls are searched for another call, in an answer.
MAX_READ_AGAIN = 262_144
# The first text in these states belongs to the state after them.
FIRST_STATES = {State.START: State.CONTENT, State.REASONING_OPENED: State.REASONING}
# States whose end is no news if the output ends there.
_ENDS_QUIETLY = TEXT_STATES | {State.IGNORED}


class CallRollback(MarkerLexer):
    """Shows text, and gives back as text what only looked like a call.

    parameters: each declared function's JSON schema by name.
    """

    def __init__(self, table: CompiledFormat, parameters: Mapping[str, JsonObject]) -> None:
        super().__init__(table)
        self._events: list[Event] = []
        self._calls = ToolCallEmitter(self._events, parameters)
        self._text_state = State.CONTENT  # the text that calls interrupt
        self._space = ""
        self._after_call = False
        self._message: State | None = None  # that a header has begun, before its first text
        self._said: State | None = None  # the last message with text; None after a call
        self._opening = ""
        self._markup: list[str] | None = None
        self._calls_before = -1
        self._read_again_budget = MAX_READ_AGAIN
        self._declared_only = False  # the call's function must be declared
        self._named: tuple[str, str | None] | None = None  # a call's name and id, before it starts

    @abc.abstractmethod
    def _enter(self, state: State) -> None:
        """Go to `state`."""

    @abc.abstractmethod
    def _leave(self, target: State | Jump) -> bool:
        """Finish what the present state has collected; False rejects the call."""

    @property
    @abc.abstractmethod
    def _in_argument(self) -> bool:
        """Whether an argument of the open call has begun and has not ended."""

    @abc.abstractmethod
    def _report_cut(self) -> None:
        """Report a call that the end of the output has cut, with what is held back of it."""

    def _show(self, text: str) -> None:
        """Add text for the client, with the white space that was held back in front of it."""
        if self._message is not None:
            text = self._separate() + text
        if self._space:
            text = self._space + text
            self._space = ""
        if self._after_call or self._state in FIRST_STATES:
            if not text.strip() and len(text) <= MAX_SPACE:
                self._space = text
                return
            self._after_call = False
        self._events.append(Reasoning(text) if self._state is State.REASONING else Content(text))

    def _begin_message(self, state: State | Jump) -> None:
        """Begin what a header leads to."""
        if not self._table.grammar.separator:
            return
        self._message = state if isinstance(state, State) and state in TEXT_STATES else None
        if self._message is None:
            self._said = None

    def _separate(self) -> str:
        """Return what parts a message, whose text begins, from the one in front of it."""
        same, self._said, self._message = self._said is self._message, self._message, None
        return self._table.grammar.separator if same else ""

    def _only_space(self, text: str) -> bool:
        """Whether `text` and all text before it is white space that can still be held back."""
        return not text.strip() and len(self._space) + len(text) <= MAX_SPACE

    def _begin_markup(self, opening: str) -> None:
        """Start to collect what may turn out to be text. opening: the marker that left the text."""
        self._opening = opening
        self._markup = []
        self._calls_before = self._calls.index

    def _keep_markup(self, text: str) -> None:
        """Collect `text` while the call has not begun."""
        if self._markup is None:
            return
        if self._calls.index != self._calls_before:
            self._end_markup()
        elif text:
            self._markup.append(text)

    def _end_markup(self) -> None:
        """Forget what was collected: it is a call's, or it has become text."""
        self._opening = ""
        self._markup = None

    def _keeps_words(self, text: str) -> bool:
        """Keep words after a call of a section, unless they are too many.

        They are dropped if another call or the end of the section follows, and content if nothing
        does: the model has forgotten the end.
        """
        markup = self._markup
        if self._calls.index < 0 or markup is None or self._opening:
            return False
        if sum(map(len, markup)) + len(text) > MAX_MARKUP:
            return False
        self._keep_markup(text)
        return True

    def _rollback(self) -> int:
        """Reject the call: show its opening marker and have the rest read again as text.

        Return 0, the length taken of the text that was being read.
        """
        opening, self._rescan = self._opening, "".join(self._markup or ())
        self._read_again_budget -= len(self._rescan)
        if self._read_again_budget < 0:
            opening, self._rescan = opening + self._rescan, ""
        self._after_call = self._calls.index >= 0
        self._named = None
        self._enter(self._text_state)
        if opening:
            self._show(opening)
        return 0

    def _drop_half_marker(self) -> None:
        """Leave out what a limit has left of a marker behind text, unless it reads as text."""
        half = self._held.strip()
        # Behind the marker that opens reasoning, a word is the rest of its header.
        is_word = half[:1].isalnum() and self._state is not State.REASONING_OPENED
        if not half or is_word or half[0] == FENCE[0]:
            return
        if any(
            marker.startswith(self._held) and target_state(target) not in TEXT_STATES
            for marker, target in self._markers.items()
        ):
            self._events.append(ToolCallCut(None, self._held))
        self._held = ""

    def _finish_open(self) -> None:
        """End the output: what has not become a call is text, and an open call is closed."""
        while self._markup is not None and self._state not in _ENDS_QUIETLY:
            if self._calls.index >= 0 and not self._collected_markup().strip(BETWEEN_CALLS):
                return
            self._rollback()
            self._read_again()
            self._flush()
        if self._calls.open and self._in_argument:
            self._report_cut()
        elif self._calls.open:
            self._leave(State.CONTENT)
            self._calls.end()
        elif self._space and self._calls.index < 0:
            self._after_call = False
            self._events.append(Content(self._space))

    def _collected_markup(self) -> str:
        """Return what `_rollback` would give back."""
        return self._opening + "".join(self._markup or ())
