"""Which grammar reads the text of a state."""

from __future__ import annotations

from .arguments.call_lists import CallListGrammar
from .arguments.incremental_grammar import IncrementalGrammar
from .arguments.json_calls import JsonCallGrammar
from .arguments.marked_object import MarkedObject
from .arguments.python_calls import PythonCallGrammar
from .arguments.tool_calls import ToolCallEmitter
from .arguments.typed_json import TypedJson
from .arguments.xml_elements import XmlElements
from .format import Format, State

GRAMMAR_STATES = frozenset(
    {
        State.ARGUMENTS,
        State.ELEMENTS,
        State.JSON_CALLS,
        State.PYTHON_CALLS,
        State.PYTHON_LINES,
        State.CALL_LIST,
    }
)


def build_grammar(state: State, format_: Format, calls: ToolCallEmitter) -> IncrementalGrammar:
    """Return a new grammar for a state of `GRAMMAR_STATES`; it gives its events to `calls`."""
    match state:
        case State.ARGUMENTS:
            if format_.quotes:
                return MarkedObject(calls, format_.quotes)
            return TypedJson(calls, calls.arguments)
        case State.ELEMENTS:
            return XmlElements(calls, format_.tag_prefix)
        case State.JSON_CALLS:
            return JsonCallGrammar(calls, format_.keys, declared_only=format_.declared_only)
        case State.CALL_LIST:
            return CallListGrammar(calls, format_.keys, declared_only=format_.declared_only)
        case _:
            bracketed = state is State.PYTHON_CALLS
            return PythonCallGrammar(
                calls, bracketed=bracketed, declared_only=format_.declared_only
            )
