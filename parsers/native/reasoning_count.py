"""Tracks reasoning and counts its tokens for parsers that only read text."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

from typing_extensions import override

from ..base import StreamParser
from ..events import Content, Event, Reasoning
from .call_items import CallItem, CallItems


class ReasoningCount:
    """Counts reasoning tokens.

    A token whose text is held back is counted once its text is returned; a marker never is.

    control_ids: tokens that are never counted: special and added ones.
    in_reasoning: the state at the start.
    """

    def __init__(self, control_ids: AbstractSet[int], *, in_reasoning: bool) -> None:
        self.in_reasoning = in_reasoning
        self.tokens = 0
        self._control_ids = control_ids
        self._uncounted = 0  # tokens whose text is held back, so their kind is unknown

    def update(
        self,
        token_ids: Sequence[int],
        events: Sequence[Event],
        *,
        in_reasoning: bool | None,
        passed_marker: bool,
    ) -> None:
        """Count `token_ids` by the events that they caused.

        in_reasoning: the parser's state; None if only the events show it.
        passed_marker: the parser has just read a marker.
        """
        reasons = any(isinstance(event, Reasoning) for event in events)
        is_control = not self._control_ids.isdisjoint(token_ids)
        if self.in_reasoning and not is_control:
            self._uncounted += len(token_ids)
        if reasons:
            self.tokens += self._uncounted
        if events or is_control or passed_marker:
            self._uncounted = 0
        if in_reasoning is not None:
            self.in_reasoning = in_reasoning
        elif events:
            self.in_reasoning = all(isinstance(event, Reasoning) for event in events)


Tools = TypeVar("Tools")
Reasons = TypeVar("Reasons")
Phase = tuple[bool | None, object]
"""Whether a parser is in reasoning, None if only its events show it, and what markers change."""


class CountingParser(StreamParser, abc.ABC, Generic[Tools, Reasons]):
    """An engine's parsers for one choice, which read one token's text at a time.

    tools, reasoning: the engine's parsers; at least one of them.
    items: the calls of the choice. control_ids: as for `ReasoningCount`.
    """

    token_aligned = True

    def __init__(
        self,
        tools: Tools | None,
        reasoning: Reasons | None,
        items: CallItems,
        control_ids: AbstractSet[int],
    ) -> None:
        self.tools = tools
        self.reasoning = reasoning
        self.items = items
        self._phase = self._read_phase()
        begins = reasoning is not None if self._phase[0] is None else self._phase[0]
        self.count = ReasoningCount(control_ids, in_reasoning=begins)

    @abc.abstractmethod
    def split(self, reasoning: Reasons, text: str) -> tuple[str, str]:
        """Return the reasoning, and the text for the tool parser, that `text` completes."""

    @abc.abstractmethod
    def find_calls(self, tools: Tools, text: str) -> tuple[str, Sequence[CallItem]]:
        """Return the text and the parts of calls that the tool parser makes of `text`."""

    @abc.abstractmethod
    def read_phase(self, reasoning: Reasons) -> Phase:
        """Return the reasoning parser's phase."""

    def _read_phase(self) -> Phase:
        return (False, None) if self.reasoning is None else self.read_phase(self.reasoning)

    def read(self, reasoning: str, text: str | None) -> Iterator[Event]:
        """Yield the events of a reasoning parser's step."""
        if reasoning:
            yield Reasoning(reasoning)
        if text and self.tools is not None:
            yield from self.items.read(*self.find_calls(self.tools, text))
        elif text:
            yield Content(text)

    def track(self, token_ids: Sequence[int], events: list[Event]) -> None:
        """Update `count` for `token_ids` and their events."""
        before, self._phase = self._phase, self._read_phase()
        self.count.update(
            token_ids,
            events,
            in_reasoning=self._phase[0],
            passed_marker=self._phase != before,
        )

    @property
    @override
    def in_reasoning(self) -> bool:
        return self.count.in_reasoning

    @property
    @override
    def reasoning_tokens(self) -> int:
        return self.count.tokens

    @override
    def reads_together(self, token_ids: Sequence[int]) -> bool:
        return len(token_ids) == 1

    @override
    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        # A token without text is not fed: some of SGLang's parsers take it as the answer's start.
        reasoning = self.reasoning
        parts = ("", text) if reasoning is None or not text else self.split(reasoning, text)
        events = list(self.read(*parts))
        self.track(token_ids, events)
        return events
