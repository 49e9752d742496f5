"""Converts the steps of SGLang's tool parsers to events; TensorRT-LLM's derive from them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from ..events import Content, Event
from .sent_calls import SentCalls

# Formats whose ids number the calls of a conversation.
CALL_IDS: dict[str | None, str] = {
    "kimi_k2": "functions.{name}:{number}",
    "kimi_k3": "{name}:{number}",
}
# Many parsers take one step per chunk: a name, its arguments, the next name. This limits the steps
# after the last chunk.
MAX_STEPS = 256


class CallItem(Protocol):
    """Part of a call: one with a name begins it, parameters extend its arguments.

    tool_index: of the call, or the index of its tool in the request.
    """

    tool_index: int
    name: str | None
    parameters: str


class CallItems:
    """The calls of one choice.

    parser_name: the tool parser's; some formats require special ids.
    earlier_calls: number of calls in the conversation so far.
    """

    def __init__(self, parser_name: str | None, earlier_calls: int) -> None:
        self.calls = SentCalls()
        self._id_form = CALL_IDS.get(parser_name)
        self._earlier_calls = earlier_calls
        # Our index of the last call for each `tool_index`.
        self._indexes: dict[int, int] = {}

    def read(self, text: str, items: Sequence[CallItem]) -> Iterator[Event]:
        """Yield the events of one step, in the order in which the model wrote them.

        Calls contain no text, so the arguments of an open call precede the text.
        """
        for item in itertools.takewhile(lambda item: not item.name, items):
            yield from self._read_item(item)
        if text:
            yield Content(text)
        for item in itertools.dropwhile(lambda item: not item.name, items):
            yield from self._read_item(item)

    def read_rest(self, step: Callable[[], tuple[str, Sequence[CallItem]]]) -> Iterator[Event]:
        """Yield the events of the remaining steps. step: performs the next one."""
        for _ in range(MAX_STEPS):
            events = list(self.read(*step()))
            if not events:
                break
            yield from events

    def _read_item(self, item: CallItem) -> Iterator[Event]:
        if item.name:
            index = self._indexes[item.tool_index] = len(self.calls)
            yield self.calls.start(index, item.name, self._build_id(item.name, index))
        if item.parameters and item.tool_index in self._indexes:
            yield self.calls.add_arguments(self._indexes[item.tool_index], item.parameters)

    def _build_id(self, name: str, index: int) -> str | None:
        form = self._id_form
        return form.format(name=name, number=self._earlier_calls + index) if form else None
