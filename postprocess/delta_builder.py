"""Events in, OpenAI deltas out, for one choice."""

from __future__ import annotations

import uuid
from typing import Literal

from ..parsers.events import (
    Content,
    Event,
    Reasoning,
    ToolCallArguments,
    ToolCallCut,
    ToolCallStarted,
)
from .messages import ChoiceDelta, Delta, FunctionDelta, TokenLogprob, ToolCallDelta

DeltaKind = Literal["content", "reasoning", "tools", "finish"]
CallOutcome = Literal["complete", "cut", "raw"]
"""How a tool call went, as far as events tell: written to its end, cut by a limit, or left by a parser that failed."""


class DeltaBuilder:
    """Collects what one choice's events say, until `take()` hands it over as deltas.

    A delta holds one kind of text: reasoning, content or tool calls. Logprobs and
    token ids go with the delta that their tokens led to; those of tokens that led
    to none (a marker, held-back text) wait for the next, so none is lost.

    index: of the choice.
    trims: calls may occur, so white space around them is no content.
    pending: the kinds of the deltas that wait to be taken, in order.
    """

    def __init__(self, index: int, *, trims: bool) -> None:
        self._index = index
        self._trims = trims
        self._deltas: list[ChoiceDelta] = []
        self.pending: list[DeltaKind] = []
        # The last delta stays open, its text in parts: joining them once is linear, adding to a string is not.
        self._kind: DeltaKind | None = None
        self._parts: list[str] = []
        self._tool_calls: list[ToolCallDelta] = []
        self._finish: tuple[str | None, str | int | None] = None, None
        self._role: str | None = "assistant"
        self._white_space = ""
        self._numbers: dict[int, int] = {}  # the parser's number of a call -> ours, without gaps
        self._ids: set[str] = set()
        self._has_arguments = True
        self._last: DeltaKind | None = None
        self._cut: ToolCallCut | None = None
        self._notes = Notes()  # of the last delta
        self._waiting = Notes()
        self._noted = self._shape()

    @property
    def calls(self) -> int:
        """Tool calls written so far."""
        return len(self._numbers)

    def note(self, token_id: int | None, logprob: TokenLogprob | None) -> None:
        """Add what the client asked to know of the token that was written last; None for what it did not."""
        if token_id is not None:
            self._waiting.token_ids.append(token_id)
        if logprob is not None:
            self._waiting.logprobs.append(logprob)
        shape = self._shape()
        if shape != self._noted:  # it has led to something
            self._noted = shape
            self._attach()

    def write(self, event: Event) -> None:
        """Add `event` to the deltas."""
        # By the class itself: this is done for every token, and a match statement costs three times as much.
        kind = event.__class__
        if kind is Content:
            if self._trims:
                self._content(event.text)  # type: ignore[union-attr]
            else:
                self._append_content(event.text)  # type: ignore[union-attr]
        elif kind is Reasoning:
            if self._kind != "reasoning":
                self._open("reasoning")
            self._parts.append(event.text)  # type: ignore[union-attr]
        elif kind is ToolCallArguments:
            self._arguments(event.index, event.text)  # type: ignore[union-attr, arg-type]
        elif isinstance(event, ToolCallStarted):
            self._start_call(event)
        elif isinstance(event, ToolCallCut):
            self._cut = event

    def call_outcomes(self, *, cut: bool, failed: bool) -> list[CallOutcome]:
        """Return how each call went; to be asked before `finish`.

        cut: generation ended by a limit. It has cut the last call if nothing but
            calls was written behind it: not all parsers say where a call ends.
        failed: the parser failed, and what came of the last call since is text.
        """
        outcomes: list[CallOutcome] = ["complete"] * self.calls
        if self._cut is not None and self._cut.index is None:
            outcomes.append("cut")
        elif outcomes and failed:
            outcomes[-1] = "raw"
        elif outcomes and cut and (self._cut is not None or self._last == "tools"):
            outcomes[-1] = "cut"
        return outcomes

    def finish(self, finish_reason: str, stop_reason: str | int | None, *, cut: bool) -> None:
        """End the choice; goes with the last delta if that has not been taken."""
        if not cut:
            self._close_call()
        if self._white_space and not self._numbers:
            self._append_content(self._white_space)
        if self._kind is None:
            self._open("finish")
        self._finish = finish_reason, stop_reason

    def take(self) -> list[ChoiceDelta]:
        """Return the deltas since the last call."""
        if self._kind is None:
            return []
        self._close()
        self._noted = self._shape()
        self.pending.clear()
        deltas, self._deltas = self._deltas, []
        return deltas

    def _content(self, text: str) -> None:
        """Add text around which white space is none."""
        if self._white_space:
            text = self._white_space + text
        shown = text.rstrip()
        self._white_space = text[len(shown) :]
        if shown:
            self._append_content(shown)

    def _append_content(self, text: str) -> None:
        if self._kind != "content":
            self._open("content")
        self._parts.append(text)

    def _start_call(self, event: ToolCallStarted) -> None:
        self._close_call()
        self._white_space = ""
        number = self._numbers[event.index] = len(self._numbers)
        call_id = event.id
        if not call_id or call_id in self._ids:
            call_id = f"call_{uuid.uuid4().hex[:24]}"
        self._ids.add(call_id)
        self._has_arguments = False
        self._open_call(ToolCallDelta(number, FunctionDelta("", event.name), call_id, "function"))

    def _arguments(self, index: int, text: str) -> None:
        number = self._numbers[index]
        self._has_arguments = True
        if self._kind != "tools" or self._tool_calls[-1].index != number:
            self._open_call(ToolCallDelta(number, FunctionDelta("")))
        self._parts.append(text)

    def _close_call(self) -> None:
        """Give a call without arguments the empty object that clients expect."""
        if not self._has_arguments:
            self._arguments(next(reversed(self._numbers)), "{}")

    def _open(self, kind: DeltaKind) -> None:
        if self._kind is not None:
            self._close()
        self._kind = self._last = kind
        self.pending.append(kind)

    def _open_call(self, call: ToolCallDelta) -> None:
        if self._kind == "tools":
            self._join_arguments()
        else:
            self._open("tools")
        self._tool_calls.append(call)

    def _join_arguments(self) -> None:
        self._tool_calls[-1].function.arguments = "".join(self._parts)
        self._parts = []

    def _close(self) -> None:
        delta = Delta(self._role)
        self._role = None
        match self._kind:
            case "content":
                delta.content = "".join(self._parts)
            case "reasoning":
                delta.reasoning_content = "".join(self._parts)
            case "tools":
                self._join_arguments()
                delta.tool_calls, self._tool_calls = self._tool_calls, []
        if self._finish[0] is not None:
            self._attach()
        notes, self._notes = self._notes, Notes()
        noted = notes.logprobs or None, notes.token_ids or None
        self._deltas.append(ChoiceDelta(self._index, delta, *self._finish, *noted))
        self._kind = None
        self._parts = []

    def _shape(self) -> tuple[object, ...]:
        """Return what changes with everything that is written."""
        return len(self._deltas), self._kind, len(self._parts), len(self._tool_calls)

    def _attach(self) -> None:
        """Give what waits to the last delta."""
        self._notes.logprobs += self._waiting.logprobs
        self._notes.token_ids += self._waiting.token_ids
        self._waiting = Notes()


class Notes:
    """What the client asked to know of some tokens."""

    __slots__ = ("logprobs", "token_ids")

    def __init__(self) -> None:
        self.logprobs: list[TokenLogprob] = []
        self.token_ids: list[int] = []
