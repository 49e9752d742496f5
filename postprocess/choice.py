"""One choice: detokenizer, stop gate, parser, writer, one token at a time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..parsers.base import ParserFactory
from ..parsers.events import Content, Event, Reasoning, ToolCallStarted
from ..tokenization.detokenizer import DetokenizerFactory
from .delta_builder import CallOutcome, DeltaBuilder, DeltaKind
from .fallback import FallbackParser, OnError, Report
from .logprobs import LogprobWriter
from .messages import ChoiceDelta, Chunk, PostprocessParams
from .stage_timing import Clock, StageClock, StageTime
from .stop import Piece, StopStringFilter


class Choice:
    """The state of one choice of a request, from its first token to its finish.

    pending: the kinds of the deltas that `take` would return, in order.
    ended_early: it finished while the engine would go on (a stop string, a call
        too many), so whoever drives the engine has to end its work.
    calls: how each tool call went; empty until it finishes.
    """

    def __init__(
        self,
        params: PostprocessParams,
        index: int,
        detokenizers: DetokenizerFactory,
        parsers: ParserFactory,
        prompt_token_ids: Sequence[int],
        on_error: OnError,
        report: Report,
    ) -> None:
        self._params = params
        self._detokenizers = detokenizers
        # Some parsers have to see special tokens that the client is not to see.
        shows = parsers.shows_special_tokens(params.parser)
        self._hides = shows and params.detokenizer.skip_special_tokens
        options = (
            msgspec.structs.replace(params.detokenizer, skip_special_tokens=False)
            if shows
            else params.detokenizer
        )
        self._detokenizer = detokenizers(options, prompt_token_ids)
        self._parser = FallbackParser(
            parsers, params.parser, prompt_token_ids, params.response_id, on_error, report
        )
        self._gate = StopStringFilter(
            params.stop,
            include=params.include_stop_str_in_output,
            splits=not self._parser.token_aligned,
        )
        self._writer = DeltaBuilder(index, trims=params.parser.parses_tools)
        self.pending: list[DeltaKind] = self._writer.pending
        self._logprobs: LogprobWriter | None = None
        if params.logprobs is not None:
            self._logprobs = LogprobWriter(
                detokenizers, params.logprobs, as_token_ids=params.return_tokens_as_token_ids
            )
        self._notes = params.logprobs is not None or params.return_token_ids
        # Whether only the text of the tokens counts, so that ordinary ones may be read in runs.
        self._reads_runs = not (
            params.stop
            or self._notes
            or self._hides
            or not params.parser.include_reasoning
            or not params.parser.parallel_tool_calls
        )
        self.tokens = 0
        self.finished = False
        self.ended_early = False
        self.calls: list[CallOutcome] = []
        self._stages: StageClock | None = None

    @property
    def reasoning_tokens(self) -> int:
        """Tokens of reasoning so far, without its markers."""
        return self._parser.reasoning_tokens

    def feed(self, chunk: Chunk) -> None:
        """Take the tokens of `chunk`; what they complete waits for `take`.

        Tokens behind the finish (the engine was faster than our stop) are dropped.
        Raises `ParserFailedError` if the parser raised and that is to fail the request.
        """
        token_ids = chunk.token_ids
        ends = chunk.finish_reason is not None
        start = 0
        if self._reads_runs:
            # The token that ends generation is read by itself.
            run = token_ids[:-1] if ends else token_ids
            start = len(run)
            if start == 1:
                self._run(run, self._detokenizer.feed(run[0]))
            elif start and self._parser.reads_together(run):
                self._run(run, self._detokenizer.feed_all(run))
            else:
                start = 0
        for position in range(start, len(token_ids)):
            if self.finished:
                return
            self._token(chunk, position)
        if ends and not self.finished:
            self._end(self._gate.flush(), chunk.finish_reason or "stop", chunk.stop_reason)

    def take(self) -> list[ChoiceDelta]:
        """Return the deltas since the last call."""
        return self._writer.take()

    def measure(self, clock: Clock) -> None:
        """Have what each stage takes measured from now on."""
        self._stages = stages = StageClock(clock)
        self._detokenizer = stages.timed("detokenize", self._detokenizer)
        self._parser = stages.timed("parse", self._parser)
        self._writer = stages.timed("write", self._writer)
        if self._params.stop:
            self._gate = stages.timed("stop", self._gate)

    def take_times(self) -> list[StageTime]:
        """Return what was measured since the last call."""
        return [] if self._stages is None else self._stages.take(self.tokens)

    def degrade(self, error: Exception) -> None:
        """Go on without the parser, as if it had raised `error`.

        Raises `ParserFailedError` if that is to fail the request.
        """
        if not self.finished:
            self._write(self._parser.degrade(error))

    def _run(self, token_ids: Sequence[int], text: str) -> None:
        """Take ordinary tokens together: nothing has to be known of a single one."""
        self.tokens += len(token_ids)
        for event in self._parser.feed(text, token_ids):
            self._writer.write(event)

    def _token(self, chunk: Chunk, position: int) -> None:
        """Take one token, with all that the request wants to know of it."""
        self.tokens += 1
        token_id = chunk.token_ids[position]
        final = chunk.finish_reason is not None and position == len(chunk.token_ids) - 1
        hidden = self._parser.in_reasoning and not self._params.parser.include_reasoning
        self._process(token_id, chunk if final else None)
        if self._notes and not hidden:
            self._note(chunk, position, token_id)

    def _note(self, chunk: Chunk, position: int, token_id: int) -> None:
        """Hand the writer what the token's delta is to carry."""
        entry = None
        if (
            self._logprobs is not None
            and chunk.logprobs is not None
            and len(chunk.logprobs) == len(chunk.token_ids)
        ):
            top = chunk.top_logprobs[position] if chunk.top_logprobs is not None else []
            entry = self._logprobs.entry(token_id, chunk.logprobs[position], top)
        self._writer.note(token_id if self._params.return_token_ids else None, entry)

    def _process(self, token_id: int, final: Chunk | None) -> None:
        """Decode, check and parse one token; `final` is its chunk if generation ends with it."""
        # The token that ended generation (end of sequence, a stop token) is no
        # text of the answer, but parsers read its id.
        hidden = (
            final is not None
            and final.finish_reason == "stop"
            and not self._params.include_stop_str_in_output
        )
        pieces = self._gated("" if hidden else self._detokenizer.feed(token_id), token_id)
        if self._gate.matched is not None:
            self._end(pieces, "stop", self._gate.matched, early=True)
        elif final is not None and final.finish_reason is not None:
            self._end(pieces + self._gate.flush(), final.finish_reason, final.stop_reason)
        else:
            self._parse(pieces)

    def _gated(self, text: str, token_id: int | None) -> list[Piece]:
        """Return the pieces that no stop string can claim any more; reasoning has none."""
        if not self._params.stop:
            return [(text, token_id)]
        if self._parser.in_reasoning:
            return [*self._gate.flush(), (text, token_id)]
        return self._gate.feed(
            text, token_id, min_tokens_reached=self.tokens > self._params.min_tokens
        )

    def _parse(self, pieces: list[Piece]) -> None:
        for text, token_id in pieces:
            if self.finished:
                return
            was_reasoning = self._parser.in_reasoning
            if token_id is None:
                events: list[Event] = [Content(text)] if text else []
            else:
                events = self._shown(self._parser.feed(text, (token_id,)), text, token_id)
            if not (was_reasoning and not self._parser.in_reasoning and self._params.stop):
                self._write(events)
                continue
            self._write(self._gate_rest(events))
            if self._gate.matched is not None and not self.finished:
                self._end([], "stop", self._gate.matched, early=True)

    def _gate_rest(self, events: list[Event]) -> list[Event]:
        """Check what the token that ended reasoning holds behind its marker.

        The parser has read this text, so what the gate holds back of it must not
        be parsed again: it goes in without a token.
        """
        gated: list[Event] = []
        for event in events:
            if isinstance(event, Content):
                gated += [Content(text) for text, _ in self._gated(event.text, None) if text]
            else:
                gated.append(event)
        return gated

    def _shown(self, events: list[Event], text: str, token_id: int) -> list[Event]:
        """Drop a special token that the parser was shown and passed on as content."""
        if not (self._hides and text and self._detokenizers.is_special(token_id)):
            return events
        return [
            Content(event.text.removesuffix(text)) if isinstance(event, Content) else event
            for event in events
            if not (isinstance(event, Content) and event.text == text)
        ]

    def _write(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Reasoning) and not self._params.parser.include_reasoning:
                continue
            surplus = (
                isinstance(event, ToolCallStarted) and self._writer.calls and not self._parallel
            )
            if surplus:
                self._finish("stop", None, cut=False, early=True)
            if self.finished:
                return
            self._writer.write(event)

    def _end(
        self,
        pieces: list[Piece],
        finish_reason: str,
        stop_reason: str | int | None,
        *,
        early: bool = False,
    ) -> None:
        """Parse the last pieces, let the parser give out the rest, and finish."""
        self._parse(pieces[:-1])
        if self.finished:
            return
        text, token_id = pieces[-1] if pieces else ("", None)
        cut = finish_reason != "stop"
        # The last token may end reasoning and hold what a stop string claims.
        checks = self._parser.in_reasoning and bool(self._params.stop) and not early
        if token_id is None:
            self._parse(pieces[-1:])
            events = self._parser.finish(cut=cut)
        else:
            events = self._shown(self._parser.finish(text, (token_id,), cut=cut), text, token_id)
        if checks:
            events = self._gate_rest(events)
            events += [Content(rest) for rest, _ in self._gate.flush() if rest]
            if self._gate.matched is not None:
                finish_reason, stop_reason, cut = "stop", self._gate.matched, False
        self._write(events)
        if not self.finished:
            self._finish(finish_reason, stop_reason, cut=cut, early=early)

    def _finish(
        self, finish_reason: str, stop_reason: str | int | None, *, cut: bool, early: bool
    ) -> None:
        self.finished = True
        self.ended_early = early
        # Also for a named tool_choice, which OpenAI ends with "stop": Dynamo's
        # HTTP layer does so without a stream, and the two must agree.
        if finish_reason == "stop" and self._writer.calls:
            finish_reason = "tool_calls"
        self.calls = self._writer.call_outcomes(cut=cut, failed=self._parser.failed)
        self._writer.finish(finish_reason, stop_reason, cut=cut)

    @property
    def _parallel(self) -> bool:
        return self._params.parser.parallel_tool_calls
