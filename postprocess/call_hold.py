"""Holds a choice's output back while a call is being written, and checks the call.

With `--postprocess-malformed-calls regenerate` a malformed call is generated again. What has left
cannot be taken back, so from the token in which a call's markup begins nothing leaves until the
call is complete and right. The output before it stays, whatever follows. If arguments stream, they
leave as they are written, and what has left is the beginning of any other attempt.

A call is right if the parser noted no slip in it, its function is declared, its arguments are a
JSON object with all required parameters, and for a tool with `strict: true` they match its schema.
"""

from __future__ import annotations

import functools
import re
from typing import Literal, NamedTuple

import msgspec

from ..base.json_types import decode_json
from ..base.limits import MAX_DISCARDED_TOKENS, MAX_DOUBTED, MAX_REST_CHARACTERS
from ..parsers.arguments.declared_functions import DeclaredFunctions
from ..parsers.base import ParserRequest, StreamParser
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
from ..parsers.schema import read_parameters
from ..parsers.schema_validation import accepts
from .delta_builder import DeltaBuilder
from .messages import TokenLogprob

CallFault = Literal[Malformation, "unfinished", "slip", "undeclared_function", "schema"]
"""Why a call is generated again; docs/malformed-calls.md explains each."""
RegenerationOutcome = Literal["complete", "open"]
"""What became of a malformed call: another attempt was right, or it stays open."""


class FaultyCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A call that is to be generated again.

    kept: the choice's tokens that stay: those in front of the call, or in front of its fault if the
        call has begun to leave. name, arguments: then, of its function, and those that have left;
        empty if they are too long to be continued.
    """

    fault: CallFault
    kept: int
    name: str = ""
    arguments: str = ""


class _Annotation(NamedTuple):
    """The id and the logprobs of a token, as for `DeltaBuilder.annotate`."""

    token_id: int | None
    logprob: TokenLogprob | None


class CallHold:
    """Passes events on to `deltas` once they cannot be taken back by another attempt.

    kept: number of tokens that stay, whatever follows.
    fault: of the call that is held, if one was found. Then nothing leaves any more.
    """

    def __init__(self, request: ParserRequest, deltas: DeltaBuilder) -> None:
        self._deltas = deltas
        self._functions = DeclaredFunctions(read_parameters(request.tools), checks=True)
        self._strict = {
            tool["function"].get("name")
            for tool in request.tools
            if isinstance(tool.get("function"), dict) and tool["function"].get("strict") is True
        }
        self._waiting: list[Event | _Annotation] = []
        self._call: ToolCallStarted | None = None
        # The call that has begun to leave: its name, its arguments, and how many pieces have left.
        self._left: tuple[str, list[str], int] | None = None
        self._arguments: list[str] = []
        self._slips = 0
        self._rejected = 0
        self._doubts = False  # a call that cannot be read may have been meant
        self._lets_pass = False  # the call is too long to be generated again
        self._streams = request.streams_arguments
        self.kept = 0
        self.fault: CallFault | None = None

    @property
    def faulty(self) -> FaultyCall | None:
        """The call that is to be generated again, if there is one."""
        if self.fault is None:
            return None
        if self._left is None:
            return FaultyCall(self.fault, self.kept)
        name, pieces, count = self._left
        arguments = "".join(pieces[:count])
        fits = len(arguments) <= MAX_REST_CHARACTERS
        return FaultyCall(self.fault, self.kept, name, arguments if fits else "")

    @property
    def calls(self) -> int:
        """Number of calls so far, those that are held included."""
        held = sum(isinstance(event, ToolCallStarted) for event in self._waiting)
        return self._deltas.calls + held

    def write(self, event: Event) -> None:
        """Take an event of the parser."""
        if isinstance(event, ToolCallStarted):
            self._check_call()
            self._call, self._arguments = event, []
            if self._streams and event.name not in self._functions:
                self._note("undeclared_function")
        elif isinstance(event, ToolCallArguments):
            self._arguments.append(event.text)
        elif isinstance(event, ToolCallMalformed):
            self._note(event.kind)
        elif isinstance(event, ToolCallCut):
            self._note("unfinished")
        if self._lets_pass:
            self._deltas.write(event)
        else:
            self._waiting.append(event)

    def annotate(self, token_id: int | None, logprob: TokenLogprob | None) -> None:
        """Take what the client wants to know of the token whose events were written."""
        if self._lets_pass:
            self._deltas.annotate(token_id, logprob)
        else:
            self._waiting.append(_Annotation(token_id, logprob))

    def settle(self, tokens: int, parser: StreamParser) -> None:
        """Pass on what stays after the choice's first `tokens`, which `parser` has read."""
        self._look_at(parser)
        outside = parser.outside_calls
        if outside:
            self._check_call()
        waits = self._is_in_doubt() or not outside
        if self.fault is None and waits and tokens - self.kept > MAX_DISCARDED_TOKENS:
            self._lets_pass = True
        if self._lets_pass or (not waits and self.fault is None):
            self._let_leave(tokens)
            if outside:
                self._lets_pass, self._left = False, None
        elif self._call is not None and self._may_stream(parser):
            self._left = self._call.name, self._arguments, len(self._arguments)
            self._let_leave(tokens)

    def _let_leave(self, tokens: int) -> None:
        self.kept = tokens
        self._pass_on()

    def _may_stream(self, parser: StreamParser) -> bool:
        """Whether the call may leave as far as it is written.

        It ends with a brace, which waits until it is checked.
        """
        writes = self._streams and self.fault is None and not self._doubts and self._arguments
        return bool(writes and not parser.held and self._arguments[-1].rstrip()[-1:] != "}")

    def end(self, tokens: int, parser: StreamParser, *, cut: bool) -> bool:
        """End the choice; return False if its last call is to be generated again.

        cut: a limit ended it, so that its last call may lack its end.
        """
        if cut:
            self.fault = None if self.fault == "unfinished" else self.fault
        else:
            self._look_at(parser)
            self._check_call()
            self._is_in_doubt()
        if self.fault is None:
            self.kept = tokens
            self._pass_on()
        return self.fault is None

    def _pass_on(self) -> None:
        for item in self._waiting:
            if isinstance(item, _Annotation):
                self._deltas.annotate(*item)
            else:
                self._deltas.write(item)
        # The end of a call gives no delta; its tokens must not wait longer than the call.
        self._deltas.attach()
        self._waiting.clear()

    def _look_at(self, parser: StreamParser) -> None:
        """Note what the parser found since the last look."""
        if parser.slips > self._slips:
            self._slips = parser.slips
            self._note("slip")
        if parser.rejected_calls > self._rejected:
            self._rejected = parser.rejected_calls
            self._doubts = True

    def _is_in_doubt(self) -> bool:
        """Whether text in which a token has opened a call may still show that one was meant.

        It was if a declared name follows, as a call has it, within `MAX_DOUBTED` characters.
        """
        if self._doubts:
            items = self._waiting
            text = "".join(item.text for item in items if isinstance(item, Content | Reasoning))
            if self._name.search(text[:MAX_DOUBTED]) is not None:
                self._note("slip")
            self._doubts = len(text) < MAX_DOUBTED
        return self._doubts

    @functools.cached_property
    def _name(self) -> re.Pattern[str]:
        """Matches a declared name after a mark."""
        names = "|".join(map(re.escape, self._functions))
        return re.compile(rf"[\[({{<>=:.\"']\s*(?:{names})(?!\w)")

    def _note(self, fault: CallFault) -> None:
        """Note the first fault, unless the call has begun to leave."""
        if self.fault is None and not self._lets_pass:
            self.fault = fault

    def _check_call(self) -> None:
        """Check the last call, which has ended."""
        call, self._call = self._call, None
        if call is not None and (fault := self._find_fault(call.name)) is not None:
            self._note(fault)

    def _find_fault(self, name: str) -> CallFault | None:
        functions = self._functions
        if name not in functions:
            return "undeclared_function"
        try:
            value = decode_json("".join(self._arguments) or "{}")
        except ValueError:
            return "invalid_json"
        if not isinstance(value, dict):
            return "invalid_json"
        if not value.keys() >= set(functions.required(name)):
            return "missing_parameter"
        if name in self._strict and not accepts(functions.schema(name).root, value):
            return "schema"
        return None
