"""What `LinearParser` holds back, told to people: its uppermost layer but one."""

from __future__ import annotations

from .arguments.incremental_grammar import IncrementalGrammar
from .arguments.schema_value import SchemaValue
from .arguments.wrapped_arguments import WrappedArguments
from .call_grammars import GRAMMAR_STATES
from .format import VALUE_STATES
from .held_text import HeldText, hold
from .open_string import OpenStrings


class HeldOutput(OpenStrings):
    """Counts and lists the text that the layers hold back. It changes nothing."""

    _collected: str
    _grammar: IncrementalGrammar
    _value: SchemaValue | WrappedArguments

    @property
    def waiting(self) -> int:
        """How many characters are held back, at most `MAX_WAITING` and two times `MAX_MARKUP`."""
        markup = len(self._collected_markup()) if self._markup is not None else 0
        value = len(self._value.held) if self._state in VALUE_STATES else 0
        waiting = len(self._held) + len(self._space) + len(self._collected) + markup + value
        return waiting + self._undecided_length

    @property
    def held(self) -> list[HeldText]:
        """The text that waits, in the order in which it was written, each with its reason."""
        is_call = self._markup is None or self._calls.index != self._calls_before
        held = hold("white space", self._space)
        if is_call:
            held += hold("unfinished name", self._collected)
        else:
            held += hold("possible call", self._collected_markup())
        if self._state in VALUE_STATES:
            held += hold("unfinished value", self._value.held)
        elif self._state in GRAMMAR_STATES:
            held += hold("unfinished value", self._grammar.held)
        in_grammar = self._state in GRAMMAR_STATES and self._step != self._scan
        held += hold("unfinished value" if in_grammar else "possible marker", self._held)
        undecided = self._undecided
        return held + hold("marker in a string", undecided.held if undecided is not None else "")
