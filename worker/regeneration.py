"""Generates a malformed call again: the model writes it once more, held to its grammar.

Post-processing holds a call back until it is complete and right (`postprocess/call_hold.py`). If it
is not, the engine's request is ended, and another one goes on where the call began. It has the
prompt, the output up to there, all sampling options, and the grammar of a call, after which
everything is free again. docs/malformed-calls.md says what this costs and where it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import NamedTuple

import msgspec

from ..base.errors import BackedgeError, ProtocolError
from ..base.json_types import JsonObject
from ..guided.call_again import (
    AttemptBudget,
    ReadTokens,
    build_call_grammar,
    build_rest_grammar,
    count_kept,
)
from ..guided.continuation import go_on_after
from ..parsers.format import Format
from ..postprocess.call_hold import CallFault, FaultyCall, RegenerationOutcome
from ..postprocess.chunk_scheduler import ScheduledChunk
from ..postprocess.engine_output import engine_error
from ..postprocess.messages import Chunk, PostprocessParams
from .engine_request import EngineRequestHandle

CountRegenerated = Callable[[CallFault, RegenerationOutcome, int], None]
"""Counts a malformed call, and the tokens discarded for it."""


class Attempt(NamedTuple):
    """The engine's second request for a choice: what it generates, and its handle."""

    outputs: AsyncIterator[JsonObject]
    engine: EngineRequestHandle


class AttemptLostError(BackedgeError):
    """The worker of an attempt is gone; another one may go on in its place."""


StartAttempt = Callable[[JsonObject, str], Attempt]
"""Starts a request, given with the end of its id, in the engine."""


class Regenerator(NamedTuple):
    """The parts that the attempts of all requests share.

    format: of the model's calls. read: returns the text of tokens. report: counts a malformed call.
    streams: arguments leave while they are written, if they are JSON.
    """

    format: Format
    read: ReadTokens
    report: CountRegenerated
    streams: bool = False

    def begin(
        self,
        params: PostprocessParams,
        request: JsonObject,
        token_ids: Sequence[int],
        start: StartAttempt,
    ) -> Regeneration | None:
        """Return a request's regeneration; None if its calls cannot be generated again.

        request: Dynamo's `PreprocessedRequest`. token_ids: of its prompt, then of a worker that
            died.
        """
        sampling = request.get("sampling_options") or {}
        apart = request.get("prefill_result") or request.get("bootstrap_info")
        if not params.parser.parses_own_syntax or params.parser.once or params.n > 1:
            return None
        if apart or request.get("prompt_embeds"):
            return None
        if sampling.get("guided_decoding"):
            return None
        return Regeneration(self, params, request, token_ids, start)


class Regeneration:
    """The malformed calls of one request: its history, and its attempts.

    sent: tokens that post-processing has given. unsent: what came after them.
    fault: of the call that is to be generated again, if there is one.
    changed: is set after each step of post-processing. streams: whether arguments stream.
    is_answered: whether the engine has taken the last request.
    """

    def __init__(
        self,
        shared: Regenerator,
        params: PostprocessParams,
        request: JsonObject,
        token_ids: Sequence[int],
        start: StartAttempt,
    ) -> None:
        self._shared = shared
        self._params = params
        self._request = request
        self._token_ids = token_ids
        self._resumed = len(token_ids) - params.prompt_length
        self._start = start
        self._budget = AttemptBudget()
        self._taken_back = 0  # tokens discarded by the last attempt
        self._last_fault = ""  # the reason for it
        self._requests = 0  # of the engine, after the first
        self._before: list[Chunk] = []  # what was unsent before the last attempt
        self._kept = -1
        self._within: tuple[str, int] | None = None  # see `_build_grammar`
        self._in_prompt = 0  # output in the prompt of the engine's last request
        self._taken_as_sent = 0  # output that post-processing did not get from this engine
        self._discarded_here = 0
        self._grammar: JsonObject | None = None
        self._first_fault: CallFault | None = None  # of the call that is being generated again
        self.sent: list[int] = []
        self.unsent: list[Chunk] = []
        self.fault: CallFault | None = None
        self.changed = asyncio.Event()
        spelling = shared.format.spelling
        is_json = spelling is not None and not spelling.parameters
        # Nothing leaves before the end of an answer without a stream.
        self.streams = params.stream and shared.streams and is_json
        self.is_answered = True

    async def follow(self, outputs: AsyncIterator[JsonObject]) -> AsyncGenerator[JsonObject, None]:
        """Yield the engine's outputs until their call is to be generated again.

        Raises `ProtocolError` for an error in place of an attempt's first output.
        """
        try:
            async for output in outputs:
                if self.fault is not None:
                    continue
                self._check(output)
                yield output
        except Exception:
            if self.fault is None:  # otherwise the request was ended
                raise
        finally:
            if isinstance(outputs, AsyncGenerator):
                await outputs.aclose()

    def _check(self, output: JsonObject) -> None:
        error = engine_error(output)
        if error is not None and not self.is_answered:
            raise ProtocolError(error)
        self.is_answered = True

    def take(self, chunk: Chunk) -> Chunk:
        """Keep an output of the engine until its tokens are sent; return it for post-processing."""
        if chunk.prompt_tokens is not None:
            chunk = self._count_prompt(chunk, -self._in_prompt)
        self.unsent.append(chunk)
        return self._show(chunk)

    def begin_stream(self) -> list[int]:
        """Start post-processing anew; return the tokens that count as sent, after the prompt."""
        self._taken_as_sent = len(self.sent)
        return [*self._token_ids, *self.sent]

    def list_unsent(self) -> list[Chunk]:
        """Return what came after them, for post-processing that has started anew."""
        return [self._show(chunk) for chunk in self.unsent]

    def _show(self, chunk: Chunk) -> Chunk:
        # Post-processing subtracts the tokens that were sent: it takes them as another worker's.
        if chunk.prompt_tokens is None:
            return chunk
        return self._count_prompt(chunk, self._taken_as_sent)

    def _count_prompt(self, chunk: Chunk, more: int) -> Chunk:
        """Return an output whose counts are those of the client's prompt and `more` tokens."""
        prompt = chunk.prompt_tokens and chunk.prompt_tokens + more
        cached = chunk.cached_tokens and min(chunk.cached_tokens, self._params.prompt_length)
        return msgspec.structs.replace(chunk, prompt_tokens=prompt, cached_tokens=cached)

    def note_sent(self, scheduled: ScheduledChunk) -> None:
        """Note what post-processing has given; its end tells how many tokens were discarded."""
        self.sent += scheduled.token_ids
        may_end = scheduled.finished or self._within is None
        if self._first_fault is not None and len(self.sent) > self._kept and may_end:
            self._count("complete")
        _, self.unsent = split(self.unsent, len(scheduled.token_ids))
        if scheduled.finished and self._params.reports_calls:
            scheduled.deltas[-1].discarded_tokens = self._budget.discarded

    def plan(self, faulty: FaultyCall) -> bool:
        """Prepare another attempt at a call; return False if it stays open."""
        fault = faulty.fault
        self._first_fault = self._first_fault or fault
        waiting = faulty.kept - self._resumed - len(self.sent)
        unsent = self._unsent_tokens()
        lead, text = 0, ""
        if not faulty.name:
            lead, text = count_kept(self._shared.format, unsent[waiting:], self._shared.read)
        stays = waiting + lead
        kept, discarded = len(self.sent) + stays, len(unsent) - stays
        if kept != self._kept:
            self._kept, self._discarded_here = kept, 0
        may = self._has_room(kept) and self._budget.allows((0, kept), discarded)
        if may:
            self._grammar = self._build_grammar(faulty, text, unsent[:waiting])
        if not may or self._grammar is None:
            self._count("open")
            return False
        self._budget.spend((0, kept), discarded)
        self._discarded_here += discarded
        self.fault, self._taken_back, self._last_fault = fault, discarded, fault
        self._before = self.unsent
        # Generation goes on after what stays, also where it had ended.
        self.unsent = [
            msgspec.structs.replace(chunk, finish_reason=None, stop_reason=None)
            for chunk in split(self.unsent, stays)[0]
        ]
        return True

    def _build_grammar(
        self, faulty: FaultyCall, text: str, waiting: Sequence[int]
    ) -> JsonObject | None:
        """Return the grammar of another attempt. text: in front of the call, of its first token.

        If the call has begun to leave, `_within` becomes its name, and where in the output its
        arguments begin.
        waiting: tokens that stay and were not sent.
        """
        if not faulty.name:
            self._within = None
            return build_call_grammar(self._shared.format, self._params.parser, text)
        output = self._read_output(waiting)
        # They may have been read from other text, such as JSON in a string.
        if not faulty.arguments or not output.endswith(faulty.arguments):
            return None
        self._within = faulty.name, len(output) - len(faulty.arguments)
        return self._go_on_within(output)

    def _go_on_within(self, output: str) -> JsonObject | None:
        """Return the grammar of the rest of a call that has begun to leave."""
        name, begin = self._within or ("", 0)
        return build_rest_grammar(self._shared.format, self._params.parser, name, output[begin:])

    def _read_output(self, waiting: Sequence[int]) -> str:
        """Return what was sent, and the text of `waiting` after it."""
        resumed = self._token_ids[self._params.prompt_length :]
        return self._shared.read([*resumed, *self.sent, *waiting])

    def start(self) -> Attempt:
        """Start the attempt that was planned."""
        return self._go_on(self._grammar)

    def move(self) -> Attempt:
        """Go on elsewhere: the attempt's worker is gone.

        A call that is not complete is written anew, or what has not left of it.
        """
        grammar = None
        if self._first_fault is not None:
            grammar, missing = self._grammar, self._kept - len(self.sent)
            if missing < 0:  # without a grammar if all its arguments have left
                grammar = self._go_on_within(self._read_output([]))
            self.unsent, _ = split(self.unsent, missing)
        return self._go_on(grammar)

    def fall_back(self) -> Attempt | None:
        """Go on after the malformed call, which stays open: the engine refuses the attempt.

        None: the model had ended its output itself.
        """
        self._budget.give_up(self._taken_back)
        self._discarded_here -= self._taken_back
        self._count("open")
        self.unsent, self._taken_back = self._before, 0
        has_ended = any(chunk.finish_reason is not None for chunk in self.unsent)
        attempt = None if has_ended else self._go_on(None)
        self.is_answered = True  # an error from now on is the request's
        return attempt

    def _go_on(self, grammar: JsonObject | None) -> Attempt:
        self.fault, self.is_answered = None, False
        kept = [*self.sent, *self._unsent_tokens()]
        self._in_prompt = len(kept)
        at_once = grammar is not None
        request = go_on_after(self._request, self._token_ids, kept, grammar, at_once=at_once)
        self._requests += 1
        return self._start(request, f"-again{self._requests}")

    def pop_discarded(self) -> tuple[int, str]:
        """Return how many tokens an attempt that the engine has taken discards, once, and why."""
        tokens, self._taken_back = self._taken_back, 0
        return tokens, self._last_fault

    def end(self) -> None:
        """End the request: a call that was to be generated again is not."""
        if self._first_fault is not None:
            self._count("open")

    def _unsent_tokens(self) -> list[int]:
        return [token_id for chunk in self.unsent for token_id in chunk.token_ids]

    def _has_room(self, kept: int) -> bool:
        longest = (self._request.get("stop_conditions") or {}).get("max_tokens")
        return longest is None or longest > kept

    def _count(self, outcome: RegenerationOutcome) -> None:
        if self._first_fault is not None:
            self._shared.report(self._first_fault, outcome, self._discarded_here)
        self._first_fault, self._discarded_here = None, 0


def split(chunks: Sequence[Chunk], tokens: int) -> tuple[list[Chunk], list[Chunk]]:
    """Return the chunks of the first `tokens`, and those of the others."""
    first: list[Chunk] = []
    for number, chunk in enumerate(chunks):
        if tokens <= 0:
            return first, list(chunks[number:])
        size = len(chunk.token_ids)
        first.append(chunk.cut(0, tokens))
        if size > tokens:
            return first, [chunk.cut(tokens, size), *chunks[number + 1 :]]
        tokens -= size
    return first, []
