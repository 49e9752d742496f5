"""Makes what reads the arguments of a call: a grammar for all of them, or one value's reader."""

from __future__ import annotations

from .arguments.call_lists import CallListGrammar
from .arguments.incremental_grammar import IncrementalGrammar
from .arguments.json_calls import JsonCallGrammar
from .arguments.marked_object import MarkedObject
from .arguments.python_calls import PythonCallGrammar
from .arguments.tool_calls import ToolCallEmitter
from .arguments.typed_json import TypedJson
from .arguments.value_between_tags import JSON, STRING, UNDECLARED, SchemaValue
from .arguments.xml_elements import XmlElements
from .format import Format, State
from .schema import ValueSchema


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


def find_schema(declared: ValueSchema, state: State, undeclared: str) -> ValueSchema:
    """Return the schema of a value: the declared one, unless the syntax has types.

    JSON keeps its type, and what is no JSON may be a declared string. A string is converted where
    no string is declared.
    """
    takes_string = declared.declared and "string" in declared.kinds
    if state is State.JSON:
        return UNDECLARED["json"] if takes_string else JSON
    if takes_string and state is State.STRING:
        return STRING
    own = STRING if state is State.STRING else UNDECLARED[undeclared]
    return declared if declared.declared else own


def begin_value(
    calls: ToolCallEmitter, format_: Format, state: State, key: str, breaks: int = 0
) -> SchemaValue:
    """Begin the value of the open call's parameter `key`.

    state: VALUE, STRING or JSON. breaks: as `SchemaValue` takes it.
    """
    declared = calls.schema.member(key)
    schema = find_schema(declared, state, format_.undeclared_type)
    calls.member(key)
    quoted = state is State.JSON or format_.quotes_json
    return SchemaValue(
        calls.arguments,
        calls.stops_repair,
        schema,
        format_.strip,
        quoted=quoted,
        breaks=breaks,
    )
