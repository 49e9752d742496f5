"""The value of one parameter: how its text is to be read, in a state of a format."""

from __future__ import annotations

from .arguments.schema_value import JSON, STRING, UNDECLARED, SchemaValue
from .arguments.tool_calls import ToolCallEmitter
from .arguments.wrapped_arguments import WrappedArguments
from .format import Format, State


def begin_value(
    calls: ToolCallEmitter, format_: Format, state: State, key: str
) -> SchemaValue | WrappedArguments:
    """Begin the value of the open call's parameter `key`.

    state: VALUE, STRING or JSON.
    """

    def begin() -> SchemaValue:
        match state:
            case State.STRING:
                schema = STRING
            case State.JSON:
                schema = JSON
            case _:
                schema = calls.value_schema(key)
                if not schema.declared:
                    schema = UNDECLARED[format_.undeclared_type]
        calls.member(key)
        quoted = state is State.JSON or format_.quotes_json
        return SchemaValue(calls.arguments, schema, format_.strip, quoted=quoted)

    if key in format_.wrappers and not calls.value_schema(key).declared and not calls.has_members:
        return WrappedArguments(calls, begin)
    return begin()
