"""The text that a grammar reads, and what becomes of it: part of a call, words, or text again."""

from __future__ import annotations

from collections.abc import Callable

from .arguments.incremental_grammar import IncrementalGrammar, Status, skip_space
from .call_reader import CallReader
from .lexer import Lexer
from .shown_text import ShownText


class GrammarReader:
    """Lets the grammar of a state read, and looks for a marker where it stops.

    reject: rejects the call. complete: goes on where the grammar has ended.
    """

    def __init__(
        self,
        call: CallReader,
        lexer: Lexer,
        shown: ShownText,
        *,
        reject: Callable[[], object],
        complete: Callable[[], None],
    ) -> None:
        self._call = call
        self._lexer = lexer
        self._shown = shown
        self._reject = reject
        self._complete = complete

    def read(self, grammar: IncrementalGrammar, text: str, position: int) -> int:
        """Let `grammar` read from `position` on; return the position it has reached."""
        if self._call.is_named:
            return self._await_arguments(text, position)
        start = position
        position = grammar.read(text, position, final=self._lexer.final)
        if self._shown.guess is not None:
            self._shown.keep(text[start:position])
        match grammar.status:
            case Status.MORE if position < len(text):
                return self._wait(grammar, text, position)
            case Status.UNEXPECTED:
                taken = self._lexer.take_marker(text, position)
                return taken if taken is not None else self._push(grammar, text, position)
            case Status.DONE:
                self._complete()
            case Status.NEXT_CALL:
                self._shown.begin_item()
            case Status.NOT_A_CALL:
                self._reject()
        return position

    def _await_arguments(self, text: str, position: int) -> int:
        """Read up to a call's arguments; reject the call if anything else comes first."""
        taken = self._lexer.take_marker(text, position)
        if taken is not None:
            return taken
        if text.startswith(self._call.arguments_start, position):
            if not self._call.start():
                self._reject()
            return position
        end = skip_space(text, position)
        if end == position:
            self._reject()
        else:
            self._shown.keep(text[position:end])
        return end

    def _wait(self, grammar: IncrementalGrammar, text: str, position: int) -> int:
        """Hold back text that needs more, if more may come."""
        if not self._lexer.final:
            return self._lexer.hold(text, position)
        return self._push(grammar, text, position)

    def _push(self, grammar: IncrementalGrammar, text: str, position: int) -> int:
        """Make the grammar take a character that it does not expect, or end there."""
        grammar.take_unexpected(text[position])
        if grammar.status is Status.NOT_A_CALL:
            self._reject()
            return position
        self._shown.keep(text[position])
        return position + 1
