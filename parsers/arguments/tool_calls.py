"""Where the grammars put the calls that they read."""

from __future__ import annotations

from ..events import Event, ToolCallArguments, ToolCallStarted


class ToolCallEmitter:
    """Numbers the calls of one choice and turns them into events.

    events: takes the events. parameters: the declared parameters' JSON schema by function.
    """

    def __init__(self, events: list[Event], parameters: dict[str, dict[str, object]]) -> None:
        self.events = events
        self._parameters = parameters
        self._index = -1
        self._has_arguments = False
        self._members = 0
        self.open = False
        self.name = ""

    @property
    def index(self) -> int:
        """The number of the last call; -1 before the first."""
        return self._index

    @property
    def schema(self) -> dict[str, object]:
        """The parameters' schema of the last call; empty if it is not declared."""
        return self._parameters.get(self.name, {})

    def declares(self, name: str) -> bool:
        """Whether the request has a function of this name."""
        return name in self._parameters

    def start(self, name: str, call_id: str | None = None) -> None:
        """Begin a call; the one before it ends."""
        self.end()
        self._index += 1
        self._has_arguments = False
        self._members = 0
        self.open = True
        self.name = name
        self.events.append(ToolCallStarted(self._index, name, call_id))

    def arguments(self, text: str) -> None:
        """Add to the JSON text of the call's arguments."""
        if text:
            self._has_arguments = True
            self.events.append(ToolCallArguments(self._index, text))

    def member(self, key: str) -> None:
        """Begin the next member of the arguments' object; its value follows as `arguments`."""
        self.arguments(("{" if not self._members else ", ") + f"{key}: ")
        self._members += 1

    def end(self) -> None:
        """End the call, if one is open: its object is closed, and `{}` if it has no arguments."""
        if not self.open:
            return
        self.open = False
        if self._members:
            self.arguments("}")
        elif not self._has_arguments:
            self.arguments("{}")
