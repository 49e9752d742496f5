"""A parameter that contains all arguments; models write it where one is called `arguments`."""

from __future__ import annotations

import json
from collections.abc import Callable

from ...base.limits import MAX_HELD_VALUE
from .schema_value import SchemaValue
from .tool_calls import ToolCallEmitter


class WrappedArguments:
    """Writes an object's members as the call's own arguments, other text with `new_value`.

    calls: the emitter of a call without arguments so far.
    new_value: begins the parameter under its own name.

    Holds back at most `MAX_HELD_VALUE` characters: only at its end is it known whether it is an
    object with only declared keys. Source: vllm 0.31 parser/deepseek_v4.py.
    """

    def __init__(self, calls: ToolCallEmitter, new_value: Callable[[], SchemaValue]) -> None:
        self._calls = calls
        self._new_value = new_value
        self._text = ""
        self._value: SchemaValue | None = None

    @property
    def held(self) -> str:
        """The text held back."""
        return self._text if self._value is None else self._value.held

    @property
    def is_empty(self) -> bool:
        """As for `SchemaValue`."""
        return self._value is None and not self._text.strip()

    @property
    def is_text(self) -> bool:
        """As for `SchemaValue`."""
        return self._value is not None and self._value.is_text

    def feed(self, text: str) -> None:
        """Read the next piece of the text."""
        if self._value is not None:
            self._value.feed(text)
        elif len(self._text) + len(text) <= MAX_HELD_VALUE:
            self._text += text
        else:
            self._give_up().feed(text)

    def finish(self, breaks: int = 0) -> None:
        """Write the arguments: the text has ended. breaks: as for `SchemaValue`."""
        members = None if self._value is not None else self._read_members()
        if members is None:
            (self._value or self._give_up()).finish(breaks)
            return
        for key, value in members.items():
            self._calls.member(key)
            self._calls.arguments(_to_json(value))

    def _give_up(self) -> SchemaValue:
        """Begin the parameter under its own name."""
        self._value = self._new_value()
        self._value.feed(self._text)
        return self._value

    def _read_members(self) -> dict[str, object] | None:
        """Return the members if the text is an object, or a JSON string that contains one."""
        found: object = self._text
        try:
            for _ in range(2):
                if isinstance(found, str):
                    found = json.loads(found, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict):
            return None
        declared = all(self._calls.schema.member(key).declared for key in found)
        return found if declared else None


def _refuse(constant: str) -> object:
    raise ValueError(constant)  # NaN is not JSON


def _to_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)
