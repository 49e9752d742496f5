"""The states of `LinearParser` that an `IncrementalGrammar` reads."""

from __future__ import annotations

import abc

from typing_extensions import override

from .arguments.incremental_grammar import Status, skip_space
from .format import COMPLETE, Format, State
from .held_output import HeldOutput


class GrammarStates(HeldOutput):
    """Lets a grammar read, and goes on where it ends or finds what it does not expect."""

    _format: Format

    @abc.abstractmethod
    def _begin_call(self) -> bool:
        """Start the call that has been named, if any; False if its function is not declared."""

    def _takes_run(self, text: str) -> bool:
        """Whether the grammar has taken `text`, which needs no look: most text of a string."""
        return (
            self._step == self._read_grammar
            and self._markup is None
            and not self._held
            and self._grammar.take_run(text)
        )

    @override
    def _in_string(self) -> bool:
        return self._step != self._scan and self._grammar.in_string

    def _await_arguments(self, text: str, position: int) -> int:
        """Read up to a call's arguments; it is none if anything else stands in their place."""
        match = self._match_here(text, position)
        if match is not None:
            return self._take_match(text, match)
        first = self._format.tag_prefix if self._state is State.ELEMENTS else "{"
        if text.startswith(first, position) and self._begin_call():
            self._step = self._read_grammar
            return position
        end = skip_space(text, position)
        if end == position:
            self._rollback()
        else:
            self._keep_markup(text[position:end])
        return end

    def _read_grammar(self, text: str, position: int) -> int:
        """Let the grammar read from `position` on."""
        grammar = self._grammar
        start = position
        position = grammar.read(text, position, final=self._final)
        if self._markup is not None:
            self._keep_markup(text[start:position])
        status = grammar.status
        if status is Status.MORE and position == len(text):
            return position
        match status:
            case Status.DONE:
                self._complete()
            case Status.UNEXPECTED:
                return self._take_unexpected(text, position)
            case Status.NEXT_CALL if self._markup is None:
                self._begin_markup("")
            case Status.NOT_A_CALL:
                self._rollback()
            case Status.MORE if self._final:
                return self._push(text, position)
            case Status.MORE:
                self._held = text[position:]
                return len(text)
        return position

    def _complete(self) -> None:
        """Go on where the grammar has ended."""
        self._step = self._scan
        if COMPLETE in self._markers:
            self._follow(COMPLETE)

    def _take_unexpected(self, text: str, position: int) -> int:
        """Read on where the grammar cannot: at a marker, or at a character it does not expect."""
        match = self._match_here(text, position)
        if match is not None:
            return self._take_match(text, match)
        return self._push(text, position)

    def _push(self, text: str, position: int) -> int:
        """Make the grammar take a character that it does not expect, or end there."""
        self._grammar.take_unexpected(text[position])
        if self._grammar.status is Status.NOT_A_CALL:
            self._rollback()
            return position
        self._keep_markup(text[position])
        return position + 1
