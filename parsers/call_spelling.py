"""How a format writes the ends of its calls and parameters, read once from its spelling."""

from __future__ import annotations

from typing import NamedTuple

from .format import Format, State


class CallSpelling(NamedTuple):
    """The parts of a format that tell where a call's own end is missing.

    has_end: a call has an end of its own, beside that of all calls.
    own_end: the text after the parameters of a call; "" if these are one object.
    parameter_start: the text that a parameter begins with.
    value_breaks, call_breaks: the line breaks that end a parameter, beside those that `strip`
        drops, and those in front of a call's end.
    """

    has_end: bool
    own_end: str = ""
    parameter_start: str = ""
    value_breaks: int = 0
    call_breaks: int = 0

    def is_foreign_end(self, marker: str) -> bool:
        """Whether a marker after the parameters is not the beginning of their own end."""
        return bool(self.own_end) and not self.own_end.startswith(marker)

    def ends_key(self, marker: str) -> bool:
        """Whether a marker is written right after a key."""
        return "{key}" + marker in self.parameter_start

    @property
    def most_breaks(self) -> int:
        """The line breaks in front of a call's end, where the last value has no end."""
        return self.value_breaks + self.call_breaks


def read_spelling(format_: Format) -> CallSpelling:
    """Return how the calls of `format_` end; little is known without a spelling."""
    has_end = State.TOOL_SECTION in format_.states.get(State.PARAMETERS, {}).values()
    spelling = format_.spelling
    if spelling is None:
        return CallSpelling(has_end)
    parameters = list(spelling.parameters.values())
    after = spelling.call.rpartition("{arguments}")[2]
    breaks = [text.rpartition("{value}")[2].count("\n") for text in parameters]
    return CallSpelling(
        has_end,
        after.lstrip() if parameters else "",
        next(iter(parameters), ""),
        max((count - len(format_.strip or "") for count in breaks), default=0),
        len(after) - len(after.lstrip("\n")),
    )
