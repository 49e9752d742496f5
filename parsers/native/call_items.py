"""The steps of SGLang's tool parsers as events; TensorRT-LLM's descend from them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from ..events import Content, Event
from .sent_calls import SentCalls

# Formats that number the calls of a conversation in their ids.
CALL_IDS: dict[str | None, str] = {
    "kimi_k2": "functions.{name}:{number}",
    "kimi_k3": "{name}:{number}",
}
# Many parsers take one step per chunk: a name, its arguments, the next name. A bound on the steps
# after the last chunk.
MAX_STEPS = 256


class CallItem(Protocol):
    """A part of a call: the name begins one, parameters are more of its arguments.

    tool_index: of the call, or its tool's place in the request.
    """

    tool_index: int
    name: str | None
    parameters: str


class CallItems:
    """The calls of one choice.

    parser_name: the tool parser's; some formats demand ids of their own.
    earlier_calls: in the conversation so far.
    """

    def __init__(self, parser_name: str | None, earlier_calls: int) -> None:
        self.calls = SentCalls()
        self._id_form = CALL_IDS.get(parser_name)
        self._earlier_calls = earlier_calls
        # Our index of the last call for each `tool_index`.
        self._indexes: dict[int, int] = {}

    def read(self, text: str, items: Sequence[CallItem]) -> Iterator[Event]:
        """Yield the events of one step in the order in which the model wrote them.

        There is no text inside a call, so the arguments of an open call precede the text.
        """
        for item in itertools.takewhile(lambda item: not item.name, items):
            yield from self._read_item(item)
        if text:
            yield Content(text)
        for item in itertools.dropwhile(lambda item: not item.name, items):
            yield from self._read_item(item)

    def read_rest(self, step: Callable[[], tuple[str, Sequence[CallItem]]]) -> Iterator[Event]:
        """Yield the events of the steps that are left. step: takes the next one."""
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
