"""The tool calls of an engine's parser that were sent as events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ..events import Event, ToolCallArguments, ToolCallStarted


class SentCalls:
    """The calls of one choice and the arguments sent so far."""

    def __init__(self) -> None:
        self._arguments: dict[int, list[str]] = {}

    def __len__(self) -> int:
        return len(self._arguments)

    def __contains__(self, index: int) -> bool:
        return index in self._arguments

    def start(self, index: int, name: str, call_id: str | None) -> Event:
        """Return the event that begins call `index`."""
        self._arguments[index] = []
        return ToolCallStarted(index, name, call_id)

    def add_arguments(self, index: int, text: str) -> Event:
        """Return the event for more arguments of call `index`, which has been started."""
        self._arguments[index].append(text)
        return ToolCallArguments(index, text)

    def send_rest(self, parsed: Sequence[object]) -> Iterator[Event]:
        """Yield the arguments that a tool parser has parsed but not sent.

        Some parsers, and therefore the engines' own servers, lose the end of a call if the last
        token of the stream completes it.

        parsed: the parser's `prev_tool_call_arr`, in both engines, by index of the call.
        """
        for index, call in enumerate(parsed):
            if index not in self or not isinstance(call, dict) or "arguments" not in call:
                continue
            arguments = call["arguments"]
            expected = (
                arguments
                if isinstance(arguments, str)
                else json.dumps(arguments, ensure_ascii=False)
            )
            sent = "".join(self._arguments[index])
            if expected != sent and expected.startswith(sent):
                yield self.add_arguments(index, expected[len(sent) :])
