"""Events in, OpenAI deltas out, for one choice."""

from __future__ import annotations

import uuid

from ..parsers.events import Content, Event, Reasoning, ToolCallArguments, ToolCallStarted
from .messages import ChoiceDelta, Delta, FunctionDelta, TokenLogprob, ToolCallDelta


class DeltaWriter:
    """Collects the deltas of one choice; `take()` hands them over.

    A delta holds one kind of text: reasoning, content or tool calls. Logprobs and
    token ids go with the delta that their tokens led to; those of tokens that led
    to none (a marker, held-back text) wait for the next, so none is lost.

    index: of the choice.
    trims: calls may occur, so white space around them is no content.
    """

    def __init__(self, index: int, *, trims: bool) -> None:
        self._index = index
        self._trims = trims
        self._deltas: list[ChoiceDelta] = []
        self._role: str | None = "assistant"
        self._white_space = ""
        self._numbers: dict[int, int] = {}  # the parser's number of a call -> ours, without gaps
        self._ids: set[str] = set()
        self._has_arguments = True
        self._logprobs: list[TokenLogprob] = []
        self._token_ids: list[int] = []

    @property
    def calls(self) -> int:
        """Tool calls written so far."""
        return len(self._numbers)

    def token(self, token_id: int | None, logprob: TokenLogprob | None) -> None:
        """Note what the next delta is to carry; None for what the client did not ask for."""
        if token_id is not None:
            self._token_ids.append(token_id)
        if logprob is not None:
            self._logprobs.append(logprob)

    def write(self, event: Event) -> None:
        """Add `event` to the deltas."""
        match event:
            case Reasoning(text):
                delta = self._delta("reasoning_content")
                delta.reasoning_content = (delta.reasoning_content or "") + text
            case Content(text):
                self._content(text)
            case ToolCallStarted(index, name, call_id):
                self._start_call(index, name, call_id)
            case ToolCallArguments(index, text):
                self._arguments(index, text)

    def finish(self, finish_reason: str, stop_reason: str | int | None, *, cut: bool) -> None:
        """End the choice; goes with the last delta if that has not been taken."""
        if not cut:
            self._close_call()
        if self._white_space and not self._numbers:
            self._append_content(self._white_space)
        if not self._deltas:
            self._new_delta()
        last = self._deltas[-1]
        last.finish_reason = finish_reason
        last.stop_reason = stop_reason

    def take(self) -> list[ChoiceDelta]:
        """Return the deltas since the last call."""
        self._attach()
        deltas, self._deltas = self._deltas, []
        return deltas

    def _content(self, text: str) -> None:
        if not self._trims:
            self._append_content(text)
            return
        text = self._white_space + text
        shown = text.rstrip()
        self._white_space = text[len(shown) :]
        if shown:
            self._append_content(shown)

    def _append_content(self, text: str) -> None:
        delta = self._delta("content")
        delta.content = (delta.content or "") + text

    def _start_call(self, index: int, name: str, call_id: str | None) -> None:
        self._close_call()
        self._white_space = ""
        number = self._numbers[index] = len(self._numbers)
        if not call_id or call_id in self._ids:
            call_id = f"call_{uuid.uuid4().hex[:24]}"
        self._ids.add(call_id)
        self._has_arguments = False
        self._delta("tool_calls").tool_calls.append(
            ToolCallDelta(number, FunctionDelta("", name), call_id, "function"),
        )

    def _arguments(self, index: int, text: str) -> None:
        number = self._numbers[index]
        self._has_arguments = True
        calls = self._delta("tool_calls").tool_calls
        if not calls or calls[-1].index != number:
            calls.append(ToolCallDelta(number, FunctionDelta("")))
        calls[-1].function.arguments += text

    def _close_call(self) -> None:
        """Give a call without arguments the empty object that clients expect."""
        if not self._has_arguments:
            self._arguments(next(reversed(self._numbers)), "{}")

    def _delta(self, kind: str) -> Delta:
        """Return the last delta if it is of this kind, else a new one."""
        if self._deltas:
            last = self._deltas[-1].delta
            if getattr(last, kind) or not (last.content or last.reasoning_content or last.tool_calls):
                return last
            self._attach()
        return self._new_delta()

    def _new_delta(self) -> Delta:
        delta = Delta(role=self._role)
        self._role = None
        self._deltas.append(ChoiceDelta(self._index, delta))
        return delta

    def _attach(self) -> None:
        """Give the waiting logprobs and token ids to the last delta."""
        if not self._deltas:
            return
        last = self._deltas[-1]
        if self._logprobs:
            last.logprobs = (last.logprobs or []) + self._logprobs
            self._logprobs = []
        if self._token_ids:
            last.token_ids = (last.token_ids or []) + self._token_ids
            self._token_ids = []
