"""The text that the client was shown, and that which may still turn out to be text.

How it works
------------
A marker that opens a call is a guess. `<tool_call>` in an answer may begin a call, or the model
may be explaining how its calls look. Until the call's frame is complete nothing has been sent, so
the parser can still change its mind:

- `open_guess` notes the marker that left the text, and from then on `keep` collects everything
  read since.
- As soon as a new call has a number the guess was right. What was collected is dropped; from here
  on nothing is undone.
- `reject` drops the guess instead: the opening marker is shown as text, and what was collected is
  returned, to be read again as text. It may hold the opening of a real call, and then the same
  starts again there.

Each rejected guess turns at least the opening marker into text, so reading again comes to an end.
It costs what is read again, and a model may write thousands of markers that begin no call: an
answer may have `MAX_READ_AGAIN` characters read again, and then a rejected call is text as a whole.
Names, keys and headers are limited to `MAX_MARKUP` characters and the grammars have limits of their
own: what waits here is bounded by them.

White space around calls and in front of an answer belongs to the syntax, not to the text. `show`
holds it back, at most `MAX_SPACE` characters: text that follows brings it back, a marker drops it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..base.json_types import JsonObject
from ..base.limits import MAX_MARKUP, MAX_READ_AGAIN, MAX_SPACE
from .arguments.tool_calls import FindMarkup, ToolCallEmitter
from .events import Content, Reasoning, ToolCallCut
from .format import COMPLETE, FIRST_STATES, TEXT_STATES, Jump, State
from .guess import Guess
from .held_back import HeldText, hold

# Characters between and around calls that are not text.
BETWEEN_CALLS = " \t\r\n,;]})"
# An end tag, or what may become one.
_END_TAG = re.compile(r"</[^<>]*>|<(?:/[^<>]*)?\Z")
# Words with markup: a call that could not be read.
_UNREAD_CALL = re.compile(r"(?s)(?=.*\w).*[<>={\"]")
# A mark that no call's header has.
_MARK = re.compile('[{="]')
# The event of text in the states where it needs no further reading.
PLAIN_EVENTS: dict[State, type[Reasoning | Content]] = {
    State.CONTENT: Content,
    State.REASONING: Reasoning,
}


def _drop_brackets(text: str) -> str:
    """Drop the closing brackets that a model writes after a call's last one."""
    rest = text.lstrip(" \t\r\n]})")
    return re.sub(r"[\]})]", "", text[: len(text) - len(rest)]) + rest


class Messages:
    """Separates two messages of one kind, each with a header, that follow each other.

    due: the message whose first text is due; None once it has been shown.
    """

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._said: State | None = None  # the last message with text; None after a call
        self._before: State | None = None  # that before the last call
        self.due: State | None = None

    def begin(self, target: State | Jump) -> None:
        """Begin what a header leads to."""
        if not self._separator:
            return
        self.due = FIRST_STATES.get(target, target) if target in TEXT_STATES else None
        if self.due is None:
            self._said, self._before = None, self._said

    def reject_call(self, state: State) -> None:
        """Begin what is no call, but a message with text of `state`."""
        self._said = self._before
        self.begin(state)

    def separate(self) -> str:
        """Return what stands between the message whose text begins and the one before it."""
        same, self._said, self.due = self._said is self.due, self.due, None
        return self._separator if same else ""


class ShownText:
    """Shows text, and gives back as text what only looked like a call.

    parameters: each declared function's JSON schema by name. separator: `Format.separator`.
    markup, guesses: as for `ToolCallEmitter`.
    calls: writes tool calls, and keeps the events.
    state: the state of the text that is shown, or that calls have interrupted.
    plain: the event of text that can be shown without `show`; None if it needs more than that.
    guess: what may turn out to be text; None if nothing may.
    """

    def __init__(
        self,
        parameters: Mapping[str, JsonObject],
        separator: str,
        markup: FindMarkup | None = None,
        *,
        guesses: bool = False,
    ) -> None:
        self.calls = ToolCallEmitter(
            parameters, markup, guesses=guesses, before_start=self._show_words
        )
        self.state = State.CONTENT
        self.plain: type[Reasoning | Content] | None = None
        self.guess: Guess | None = None
        self._messages = Messages(separator)
        self._space = ""
        self._after_call = False
        self._has_own_end = False  # the call has ended by its own syntax, not by a marker
        self._lacks_end = False  # text has followed the call, not the marker that ends it
        self._read_again_budget = MAX_READ_AGAIN

    @property
    def is_guessing(self) -> bool:
        """Whether a call may have begun that may still become text."""
        return self.guess is not None and self.calls.index == self.guess.before

    @property
    def is_unmarked(self) -> bool:
        """Whether no marker has opened the answer's first call, which has not begun."""
        guess = self.guess
        return guess is not None and self.calls.index < 0 and not guess.opening.strip()

    @property
    def has_words(self) -> bool:
        """Whether words precede a section's first call."""
        return self.guess is not None and bool(self.guess.words)

    @property
    def held_text(self) -> list[HeldText]:
        """The text that waits, each part with the reason."""
        guessed = self.guess.text if self.guess is not None and self.is_guessing else ""
        return hold("white space", self._space) + hold("possible call", guessed)

    # Text.

    def enter_text(self, state: State) -> None:
        """Begin text of `state`; what a guess has collected is forgotten."""
        if self.guess is not None:
            self.guess.end_words()
        self._show_section()
        self.state = state
        self.guess = None
        waits = self._messages.due is not None or self._after_call or self._space
        self.plain = None if waits else PLAIN_EVENTS.get(state)

    def show(self, text: str) -> None:
        """Add text for the client, with the white space that was held back in front of it."""
        if self._messages.due is not None:
            text = self._messages.separate() + text
        if self._space:
            text = self._space + text
            self._space = ""
        if self._after_call and self._has_own_end:
            text = _drop_brackets(text)
        if self._after_call or self.state in FIRST_STATES:
            if not text.strip() and len(text) <= MAX_SPACE:
                self._space = text
                return
            self._after_call = False
        self.plain = PLAIN_EVENTS.get(self.state)
        kind = Reasoning if self.state is State.REASONING else Content
        self.calls.emit(kind(text))

    def read_closely(self) -> None:
        """Have all text read closely, until the next state."""
        self.plain = None

    def is_space(self, text: str) -> bool:
        """Whether `text` and all text before it is white space that can still be held back."""
        return not text.strip() and len(self._space) + len(text) <= MAX_SPACE

    def drop_space(self) -> None:
        """Drop white space in front of a marker, which is part of it."""
        self._space = ""

    def resume_text(self) -> State:
        """Return the state of the text that calls have interrupted, where text goes on."""
        self._after_call, self._has_own_end = True, False
        return self.state

    def begin_message(self, target: State | Jump) -> None:
        """Begin what a header leads to."""
        self._messages.begin(target)

    # Calls.

    def leave_text(self, marker: str, said: int = 0, *, ends: bool = False) -> None:
        """Leave the text by `marker`, which may open a call.

        said: how many of its first characters are text. ends: it ends a message; what cannot be
            read after it belongs to none, and is content.
        """
        if said:
            self.show(marker[:said])
        interrupts = self.state not in FIRST_STATES
        self.state = State.CONTENT if ends else FIRST_STATES.get(self.state, self.state)
        self.plain = None
        self.open_guess("" if ends else self._space + marker[said:], interrupts=interrupts)

    def enter_markup(self) -> None:
        """Begin a state that is not text."""
        if self.guess is None and not self.calls.open:
            self.open_guess("")
        self._space = ""

    def open_guess(self, opening: str, *, interrupts: bool = False) -> None:
        """Start to collect what may turn out to be text. opening, interrupts: as for `Guess`."""
        self.guess = Guess(opening, self.calls.index, interrupts=interrupts)

    def keep(self, text: str) -> None:
        """Collect `text` while the call has not begun."""
        guess = self.guess
        if guess is None:
            return
        if self.calls.index != guess.before:
            self.guess = None
        elif text:
            guess.add(text)

    def keep_marker(self, marker: str, *, may_open: bool) -> None:
        """Collect a marker outside of text.

        may_open: it may begin a call after another. A marker that ends a call is never text.
        """
        guess = self.guess
        if self.calls.index < 0 or (guess is not None and (guess.opening or self.in_call)):
            self.keep(marker)
        elif may_open and not self.calls.open:
            self.open_guess(marker)

    def skip(self, text: str, state: State, *, is_meant: bool) -> int:
        """Skip what may stand between calls; return how much of `text` that is.

        state: of the text. is_meant: a token has opened the section, if it is one.
        """
        if state is State.TOOL_SECTION and self.keep_words(text, is_section=is_meant):
            return len(text)
        skipped = text[: len(text) - len(text.lstrip(BETWEEN_CALLS))]
        self.keep(skipped)
        return len(skipped)

    def keep_words(self, text: str, *, is_section: bool) -> bool:
        """Collect words between the calls of a section, unless they are too many.

        is_section: a token has opened the section, so words in front of its first call are text.
        After a call they are dropped if another one or the end of the section follows. They are
        content if nothing does: the model has forgotten the end. And they are if they have markup,
        that of a call which cannot be read.
        """
        guess = self.guess
        if guess is None:
            return False
        is_after_call = not guess.opening and self.calls.index >= 0
        if is_after_call and self._shows_unread(guess, text):
            return True
        if guess.is_too_long(text):
            return False
        if is_after_call:
            self.keep(text)
            return True
        words = text if guess.words else text.lstrip(BETWEEN_CALLS)
        begins = bool(guess.opening) and is_section and words[:1].isalnum()
        if guess.words or begins:
            self.keep(text[: len(text) - len(words)])
            guess.add_words(words)
        return bool(guess.words)

    def _shows_unread(self, guess: Guess, text: str) -> bool:
        """Show text after a call if it is, or belongs to, a call that cannot be read."""
        so_far = _END_TAG.sub("", guess.begin_with(text)[:MAX_MARKUP])
        if not guess.shows and _UNREAD_CALL.match(so_far) is None:
            return False
        self._show_kept(guess, text)
        return True

    def _show_kept(self, guess: Guess, text: str) -> None:
        """Show what a guess after a call has collected, and `text` after it."""
        self.show("".join(guess.pieces) + text)
        self.plain = None
        guess.show()

    def keep_ignored(self, text: str) -> bool:
        """Collect text that means nothing in a call; return False to reject the call.

        A mark in it, or its length, shows that a call was there, which cannot be read.
        """
        guess = self.guess
        if guess is None:
            return True
        is_long = len(guess.begin_with(text)) > MAX_MARKUP
        is_call = is_long or _MARK.search(text) is not None
        if is_call and (guess.opening or self.in_call):
            return False
        if is_call or guess.shows:
            self._show_kept(guess, text)
        else:
            self.keep(text)
        return True

    # Text that is no call, in a section or a list that goes on.

    def begin_call(self, marker: str) -> None:
        """Collect the marker that begins a call in a section."""
        if self.guess is not None and marker:
            self.guess.begin_call(marker)

    def begin_item(self) -> None:
        """Begin an item of a list, which may be a call."""
        if self.guess is None or self.guess.before != self.calls.index:
            self.open_guess("")

    @property
    def in_call(self) -> bool:
        """Whether a call in a section may have begun."""
        return self.guess is not None and self.guess.call is not None

    def reject_call(self, marker: str) -> str | None:
        """Reject a call in a section: its marker becomes words; return the text to be read again.

        marker: the last one, which that text leaves out. None: the whole section is rejected.
        """
        guess = self.guess
        if guess is None or guess.call is None:
            return None
        first, *rest = guess.pieces[guess.call :]
        if marker and rest and rest[-1] == marker:
            rest.pop()
        again = "".join(rest)
        pieces = guess.take_back(guess.call)
        if len(again) > self._read_again_budget or not self._keep_words(guess, first):
            guess.put_back(pieces)
            return None
        self._read_again_budget -= len(again)
        guess.end_call()
        return again

    def _keep_words(self, guess: Guess, text: str) -> bool:
        """Take the marker of what is no call: words, which a call has to follow, or precedes.

        Return False if they are too many.
        """
        if not guess.opening and self.calls.index >= 0:
            if not guess.shows:
                guess.drop_front(BETWEEN_CALLS)
            self._show_kept(guess, text)
            return True
        if len(guess.begin_with(text)) > MAX_MARKUP:
            return False
        guess.add_words(text)
        return True

    def note_marker(self, marker: str) -> None:
        """Note that a marker was followed."""
        self._has_own_end, self._lacks_end = marker == COMPLETE, False
        if self.guess is not None:
            self.guess.note_marker(marker)

    def is_doubled(self, marker: str) -> bool:
        """Whether nothing stands between this marker and the same one, or a call, before it."""
        if self.guess is None:
            return (self._after_call or self._lacks_end) and not self.calls.open
        return self.guess.last == marker

    def drop_header(self, end: str) -> None:
        """Drop the header that was collected: a message follows, perhaps of a rejected call.

        end: the marker after it. Without one, and with none in front, the header may be text.
        """
        guess = self.guess
        if guess is not None and not guess.interrupts and (end or guess.opening.strip()):
            guess.drop_header()

    def keep_doubled(self, marker: str) -> None:
        """Keep a marker that is doubled, and so means nothing."""
        self.keep(marker)
        self.note_marker(marker)

    def start_call(self, name: str, call_id: str | None) -> None:
        """Start a call: the guess was right."""
        self.calls.start(name, call_id)
        self.guess = None

    def _show_words(self) -> None:
        """Show the words in front of a section's first call, which starts."""
        if self.guess is not None and self.guess.words:
            self.show(self.guess.take_words())
            self.plain = None

    def _show_section(self) -> None:
        """Show a section with words and no call: the model has written about the marker."""
        guess = self.guess
        if guess is not None and guess.words:
            if guess.is_message:
                self._messages.reject_call(self.state)
            self.show(guess.shown_opening + "".join(guess.pieces[: guess.words_end]))
            guess.drop_shown()

    def complete_call(self) -> None:
        """Complete the open call, if any: the one place where a call's end is decided."""
        self.calls.end()

    def reject(self) -> str:
        """Reject the guess: show its opening marker; return the text to be read again."""
        opening = again = ""
        if (guess := self.guess) is not None:
            opening, again = guess.shown_opening, "".join(guess.pieces)
            if guess.is_message:
                self._messages.reject_call(self.state)
        self.guess = None
        self._read_again_budget -= len(again)
        if self._read_again_budget < 0:
            opening, again = opening + again, ""
        self._after_call = self._lacks_end = self.calls.index >= 0
        self.complete_call()
        if opening:
            self.show(opening)
        return again

    # The end of the output.

    def cut(self, held: str, *, shows_guess: bool = True) -> None:
        """Report a call that the end of the output has cut, with what is held back of it.

        held: what the lexer and a value hold back. shows_guess: what was collected is no markup
        that the format ignores.
        """
        self.keep("")  # forgets what a call has used
        guess = self.guess
        if guess is not None and shows_guess:
            if not "".join(guess.pieces[guess.words_end :]).strip(BETWEEN_CALLS):
                guess.end_words()  # no call has begun after the words
            self._show_section()
            held = guess.text + held
            if held.strip(BETWEEN_CALLS):
                self.calls.emit(ToolCallCut(None, held))
        elif self.calls.open or held:
            self.calls.emit(ToolCallCut(self.calls.index, held))

    def finish(self) -> None:
        """End the output: show white space that is all of it."""
        if self._space and self.calls.index < 0:
            self._after_call = False
            self.calls.emit(Content(self._space))
