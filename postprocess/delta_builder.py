"""Turns the parser events of one choice into OpenAI deltas, or into one for a whole answer."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeVar

import msgspec

from ..base.json_types import NestingError, decode_json, measure_nesting
from ..base.limits import MAX_SEARCHED_CONTENT
from ..parsers.arguments.json_text import escape_json
from ..parsers.base import ParserRequest
from ..parsers.events import (
    Content,
    Event,
    Malformation,
    Reasoning,
    ToolCallArguments,
    ToolCallCut,
    ToolCallMalformed,
    ToolCallStarted,
)
from ..parsers.held_back import HeldText, hold
from .messages import (
    ChoiceDelta,
    Delta,
    FunctionDelta,
    MalformedCall,
    TokenLogprob,
    ToolCallDelta,
)
from .surrogate_pairs import MAX_HALF, mend_json, mend_part, mend_text

DeltaKind = Literal["content", "reasoning", "tools", "finish"]
CallOutcome = Literal["complete", "cut", "raw", "dropped", "content", Malformation]
"""How a call ended: complete, unfinished, dropped by a failed parser, forbidden, shown as text, or
malformed."""


class DeltaBuilder:
    """Collects the events of one choice until `take` returns them as deltas.

    A delta holds one kind of text: reasoning, content or tool calls. It carries the logprobs and
    ids of the tokens that produced it; those of tokens that produced no delta (a marker,
    held-back text) wait for the next delta, so that all are delivered.

    index: of the choice.
    request: if calls may occur, white space after them is dropped; if the client has forbidden
        calls, they are dropped as well.
    breaks: of the white space between text and a call, the line breaks that are the chat
        template's; the rest is content. None: all of it is dropped.
    pending: the kinds of the deltas that `take` would return, in order.
    """

    def __init__(self, index: int, request: ParserRequest, breaks: int | None = None) -> None:
        self._index = index
        self._breaks = breaks
        self._trims = bool(request.tools)
        self._drops_calls = request.drops_calls
        self._dropped = 0
        self._deltas: list[ChoiceDelta] = []
        self.pending: list[DeltaKind] = []
        # The last delta stays open as a list of parts: joining them once is linear, while
        # appending to a string may copy it each time.
        self._kind: DeltaKind | None = None
        self._parts: list[str] = []
        self._tool_calls: list[ToolCallDelta] = []
        self._finish: tuple[str | None, str | int | None] = None, None
        self._report: list[MalformedCall] | None = None
        # Held-back end of the last delta, possibly half a character: kind, call and text.
        self._held: tuple[DeltaKind, int | None, str] | None = None
        self._role: str | None = "assistant"
        self._whitespace = ""
        self._numbers: dict[int, int] = {}  # the parser's number of a call -> ours, without gaps
        self._ids: set[str] = set()
        self._has_arguments = True
        self._last: DeltaKind | None = None
        self._cut: ToolCallCut | None = None
        self._malformed: dict[int, Malformation] = {}  # by our number
        self._details = _TokenDetails()  # of the last delta
        self._waiting = _TokenDetails()
        self._written = False  # whether text was written since the last `annotate` or `take`
        # The beginning of the content, if it may hold calls, and what is left of its limit.
        self._begun: list[str] = []
        self._unsearched = MAX_SEARCHED_CONTENT if self._trims else 0

    @property
    def calls(self) -> int:
        """Number of tool calls so far."""
        return len(self._numbers)

    @property
    def annotated(self) -> int:
        """Number of annotated tokens whose delta `take` has not returned yet."""
        return self._details.tokens + self._waiting.tokens

    @property
    def logprobs(self) -> list[TokenLogprob]:
        """The logprobs of these tokens."""
        taken = [entry for delta in self._deltas for entry in delta.logprobs or ()]
        return [*taken, *self._details.logprobs, *self._waiting.logprobs]

    @property
    def first_content(self) -> str:
        """The beginning of the content, to be searched for calls; empty if there are no tools."""
        is_open = self._kind == "content" and self._unsearched > 0
        last = itertools.islice(self._parts, self._unsearched) if is_open else ()
        return "".join([*self._begun, *last])[:MAX_SEARCHED_CONTENT]

    def open_calls(self, *, stopped: bool) -> dict[int, str]:
        """Return the calls that no client may execute, each with what no delta has of it.

        stopped: the model ended its output itself, so the call that was cut is one of them.
        """
        cut, calls = self._cut, dict.fromkeys(self._malformed, "")
        if stopped and cut is not None and cut.index in self._numbers:
            calls[self._numbers[cut.index]] = cut.text
        return calls

    @property
    def held(self) -> list[HeldText]:
        """The text that is held back until more follows."""
        half = self._held[2] if self._held is not None else ""
        return hold("half of a character", half) + hold("white space", self._whitespace)

    def annotate(self, token_id: int | None, logprob: TokenLogprob | None) -> None:
        """Add id and logprobs of the token that was just written; None if not requested."""
        self._waiting.tokens += 1
        if token_id is not None:
            self._waiting.token_ids.append(token_id)
        if logprob is not None:
            self._waiting.logprobs.append(logprob)
        if self._written:  # the token produced a delta
            self._written = False
            self._attach()

    def attach(self) -> None:
        """Add what waits for the next delta to the one that is open, if there is one."""
        if self._kind is not None:
            self._attach()

    def write(self, event: Event) -> None:
        """Add `event` to the deltas."""
        # Compare classes: this runs for each token, and a match statement takes three times
        # as long.
        kind = event.__class__
        if kind is Content:
            if self._trims:
                self._append_trimmed(event.text)  # type: ignore[union-attr]  # it is a Content
            else:
                self._append_content(event.text)  # type: ignore[union-attr]  # it is a Content
        elif kind is Reasoning:
            if self._kind != "reasoning":
                self._open("reasoning")
            self._parts.append(event.text)  # type: ignore[union-attr]  # it is a Reasoning
            self._written = True
        elif self._drops_calls:
            self._dropped += isinstance(event, ToolCallStarted)
        elif isinstance(event, ToolCallArguments):
            self._append_arguments(event.index, event.text)
        elif isinstance(event, ToolCallStarted):
            self._start_call(event)
        elif isinstance(event, ToolCallCut):
            self._cut = ToolCallCut(event.index, mend_text(event.text))
        elif isinstance(event, ToolCallMalformed):
            self._malformed[self._numbers[event.index]] = event.kind

    def call_outcomes(self, *, cut: bool, failed: bool) -> list[CallOutcome]:
        """Return the outcome of each call. Call this before `finish`.

        cut: a limit ended generation. The last call was cut if only calls were written since it
            began, because not all parsers report the end of a call.
        failed: the parser failed; the rest of the last call came out as text.
        """
        if self._dropped:
            return ["dropped"] * self._dropped
        outcomes: list[CallOutcome] = ["complete"] * self.calls
        for number, kind in self._malformed.items():
            outcomes[number] = kind
        if self._cut is not None and self._cut.index is None:
            outcomes.append("cut")
        elif outcomes and failed:
            outcomes[-1] = "raw"
        elif outcomes and (self._cut is not None or (cut and self._last == "tools")):
            outcomes[-1] = "cut"
        return outcomes

    def finish(
        self,
        finish_reason: str,
        stop_reason: str | int | None,
        *,
        cut: bool,
        reported: Iterable[int] | None = None,
    ) -> None:
        """End the choice, in its last delta if that has not been taken.

        reported: the open calls, which that delta reports; None for a client that does not ask.
        """
        if reported is not None:
            reasons = self._malformed
            self._report = [
                MalformedCall(call, reasons.get(call, "unfinished")) for call in sorted(reported)
            ]
        if not cut and (self._cut is None or self._cut.index is None):
            self._close_call()
        if self._whitespace and not self._numbers and not self._dropped:
            self._append_content(self._whitespace)
        if self._kind is None:
            kind, call, _ = self._held or ("finish", None, "")
            self._open(kind, call)
        self._finish = finish_reason, stop_reason

    def take(self) -> list[ChoiceDelta]:
        """Return the deltas since the last call."""
        if self._kind is None:
            return []
        if self._waits_whole():
            self.pending[:] = [self._kind]
        else:
            self._close(goes_on=self._finish[0] is None)
            self.pending.clear()
        self._written = False
        deltas, self._deltas = self._deltas, []
        return deltas

    def _append_trimmed(self, text: str) -> None:
        """Append content; hold back trailing whitespace, to be dropped if a tool call follows."""
        if self._whitespace:
            text = self._whitespace + text
        shown = text.rstrip()
        self._whitespace = text[len(shown) :]
        if shown:
            self._append_content(shown)

    def _append_content(self, text: str) -> None:
        if self._kind != "content":
            self._open("content")
        self._parts.append(text)
        self._written = True

    def _start_call(self, event: ToolCallStarted) -> None:
        self._end_text()
        self._close_call()
        number = self._numbers[event.index] = len(self._numbers)
        call_id = event.id
        if not call_id or call_id in self._ids:
            call_id = f"call_{uuid.uuid4().hex[:24]}"
        self._ids.add(call_id)
        self._has_arguments = False
        function = FunctionDelta("", mend_text(event.name))
        self._open_call(ToolCallDelta(number, function, mend_text(call_id), "function"))

    def _end_text(self) -> None:
        """Show what a call leaves of the white space in front of it."""
        space, self._whitespace = self._whitespace, ""
        if self._breaks is None or self._last != "content":
            return
        for _ in range(self._breaks):
            space = space.removesuffix("\n")
        if space:
            self._append_content(space)

    def _append_arguments(self, index: int, text: str) -> None:
        number = self._numbers[index]
        self._has_arguments = True
        if self._kind != "tools" or self._tool_calls[-1].index != number:
            self._open_call(ToolCallDelta(number, FunctionDelta("")))
        self._parts.append(text)
        self._written = True

    def _close_call(self) -> None:
        """Give a call without arguments the empty object that clients expect."""
        if not self._has_arguments:
            self._append_arguments(next(reversed(self._numbers)), "{}")

    def _open(self, kind: DeltaKind, call: int | None = None) -> None:
        """Open a delta. call: index of the call whose arguments it will hold."""
        if self._kind is not None:
            self._close()
        elif self._held is not None:
            held_kind, held_call, text = self._held
            self._held = None
            goes_on = (held_kind, held_call) == (kind, call)
            if not goes_on:
                self._open(held_kind, held_call)
            self._parts.append(text)
            if not goes_on:
                self._close()
        self._written = True
        self._kind = self._last = kind
        self.pending.append(kind)
        if call is not None:
            self._tool_calls.append(ToolCallDelta(call, FunctionDelta("")))

    def _open_call(self, call: ToolCallDelta) -> None:
        self._written = True
        if self._kind == "tools":
            self._tool_calls[-1].function.arguments = self._join_text()
            self._tool_calls.append(call)
        else:
            self._open("tools", call.index)
            self._tool_calls[-1] = call

    def _join_text(self, *, goes_on: bool = False) -> str:
        """Return the open text, well-formed.

        goes_on: the text may continue in the next delta, so a final half character is moved
            there.
        """
        text, self._parts = "".join(self._parts), []
        is_json = self._kind == "tools"
        if not goes_on:
            return mend_json(text) if is_json else mend_text(text)
        text, held = mend_part(text, is_json=is_json)
        if held and self._kind is not None:
            self._held = self._kind, self._tool_calls[-1].index if is_json else None, held
        return text

    def _waits_whole(self) -> bool:
        """Whether all of the open delta may be half a character."""
        if self._kind == "finish" or self._finish[0] is not None or len(self._parts) > MAX_HALF:
            return False
        is_json = self._kind == "tools"
        if is_json and self._tool_calls[-1].function.name is not None:
            return False
        text = "".join(self._parts)
        if not is_json and text.isascii():
            return False
        return 0 < len(text) <= MAX_HALF and not mend_part(text, is_json=is_json)[0]

    def _close(self, *, goes_on: bool = False) -> None:
        delta = Delta(self._role)
        self._role = None
        match self._kind:
            case "content":
                delta.content = self._join_text(goes_on=goes_on)
                if self._unsearched > 0:
                    self._begun.append(delta.content)
                    self._unsearched -= len(delta.content)
            case "reasoning":
                delta.reasoning_content = self._join_text(goes_on=goes_on)
            case "tools":
                self._tool_calls[-1].function.arguments = self._join_text(goes_on=goes_on)
                delta.tool_calls, self._tool_calls = self._tool_calls, []
        if self._finish[0] is not None:
            self._attach()
        reason, stop_reason = self._finish
        details = self._details
        closed = ChoiceDelta(self._index, delta, reason, stop_reason)
        if reason is not None and self._report is not None:
            closed.malformed_calls, closed.discarded_tokens = self._report, 0
        if details.tokens:
            closed.logprobs, closed.token_ids = details.logprobs or None, details.token_ids or None
            self._details = _TokenDetails()
        self._deltas.append(closed)
        self._kind = None

    def _attach(self) -> None:
        self._details.logprobs += self._waiting.logprobs
        self._details.token_ids += self._waiting.token_ids
        self._details.tokens += self._waiting.tokens
        self._waiting = _TokenDetails()


class _TokenDetails(msgspec.Struct):
    """Number of some tokens, and their ids and logprobs if the client asked for them."""

    logprobs: list[TokenLogprob] = []
    token_ids: list[int] = []
    tokens: int = 0


T = TypeVar("T")


def aggregate_deltas(
    deltas: Sequence[ChoiceDelta], open_calls: Mapping[int, str] = MappingProxyType({})
) -> ChoiceDelta:
    """Merge all deltas of a choice into one.

    open_calls: the calls that become content (`DeltaBuilder.open_calls`). So does one that a limit
    has cut: Dynamo's HTTP layer would drop it.
    """
    last = deltas[-1]
    calls = _join_calls(deltas)
    if last.finish_reason == "length":
        open_calls = {**_find_cut_call(calls), **open_calls}
    content = "".join(part.delta.content or "" for part in deltas)
    content += _spell_calls(calls, open_calls)
    return ChoiceDelta(
        last.index,
        Delta(
            role="assistant",
            content=content or None,
            reasoning_content="".join(part.delta.reasoning_content or "" for part in deltas)
            or None,
            tool_calls=[call for call in calls if call.index not in open_calls],
        ),
        last.finish_reason,
        last.stop_reason,
        _join([part.logprobs for part in deltas]),
        _join([part.token_ids for part in deltas]),
        last.malformed_calls,
        last.discarded_tokens,
    )


def _join_calls(deltas: Sequence[ChoiceDelta]) -> list[ToolCallDelta]:
    calls: dict[int, ToolCallDelta] = {}
    arguments: dict[int, list[str]] = {}
    for part in deltas:
        for call in part.delta.tool_calls:
            calls.setdefault(call.index, call)
            arguments.setdefault(call.index, []).append(call.function.arguments)
    return [
        ToolCallDelta(
            index, FunctionDelta("".join(arguments[index]), call.function.name), call.id, call.type
        )
        for index, call in calls.items()
    ]


def _find_cut_call(calls: Sequence[ToolCallDelta]) -> dict[int, str]:
    """Return the last call, as `DeltaBuilder.open_calls` has it, if its arguments are no object."""
    for call in calls[-1:]:
        text = call.function.arguments
        try:
            is_whole = isinstance(decode_json(text), dict)
        except NestingError:
            is_whole = not measure_nesting(text).open
        except ValueError:
            is_whole = False
        if not is_whole:
            return {call.index: ""}
    return {}


def _spell_calls(calls: Sequence[ToolCallDelta], open_calls: Mapping[int, str]) -> str:
    """Return the open calls, each as the beginning of a JSON object."""
    return "".join(
        f'{{"name": "{escape_json(call.function.name or "")}", '
        f'"arguments": {call.function.arguments}{open_calls[call.index]}'
        for call in calls
        if call.index in open_calls
    )


def _join(lists: Sequence[list[T] | None]) -> list[T] | None:
    """Concatenate the lists; None if all of them are None."""
    present = [part for part in lists if part is not None]
    return [item for part in present for item in part] if present else None
