"""One choice: takes the tokens through the stages that its request needs, and finishes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ..parsers.base import ParserFactory, StreamParser
from ..parsers.events import Event, Reasoning, ToolCallStarted
from ..tokenization.detokenizer import DetokenizerFactory
from .call_hold import CallHold, FaultyCall
from .call_markup import holds_call
from .delta_builder import CallOutcome, DeltaBuilder, DeltaKind
from .fallback import FallbackParser, Report
from .logprobs import LogprobBuilder
from .messages import Chunk, PostprocessParams, TokenLogprob
from .settings import OnError
from .special_tokens import SpecialTokenHider
from .stage_timing import StageClock, StageTime
from .stop_strings import StopFilteredParser, StopStringFilter


@dataclass(slots=True)
class PostprocessSetup:
    """The settings that all requests of a model share.

    on_error: whether a parser that raises fails its request. report: called with the failure.
    """

    detokenizers: DetokenizerFactory
    parsers: ParserFactory
    on_error: OnError
    report: Report


def _build_stop_filter(
    params: PostprocessParams, parser: StreamParser, clock: StageClock
) -> StopFilteredParser:
    stops = StopStringFilter(
        params.stop,
        include=params.include_stop_str_in_output,
        # A parser that reads both ids and text gets the text of each token whole.
        splits=not parser.token_aligned,
    )
    return StopFilteredParser(
        parser,
        clock.measure("stop", stops),
        params.min_tokens,
        in_reasoning=params.stops_in_reasoning,
    )


def _build_logprobs(
    params: PostprocessParams, detokenizers: DetokenizerFactory
) -> LogprobBuilder | None:
    as_token_ids = params.return_tokens_as_token_ids
    if params.logprobs is None:
        return None
    return LogprobBuilder(detokenizers, params.logprobs, as_token_ids=as_token_ids)


def _reads_runs(params: PostprocessParams) -> bool:
    return not (
        params.stop
        or params.annotates_tokens
        or not params.parser.include_reasoning
        or not params.parser.parallel_tool_calls
        or params.parser.regenerates
    )


class Choice:
    """The state of one choice of a request, from its first token to its finish.

    Its attributes are the stages that a token passes through. Some are read for each token.

    tokens: number of output tokens so far.
    parser: the model's parser, possibly wrapped in filters that the request needs.
    fallback: the innermost parser, which counts reasoning and handles failures.
    stop: `parser` if the request has stop strings, else None.
    reads_runs: ordinary tokens may be processed together, because only their text matters.
    deltas: its `take` returns the deltas since the last call.
    hold: lets calls reach `deltas` once they are right, if malformed ones are generated again.
    pending: the kinds of these deltas, in order.
    finished: the choice gives no more deltas.
    ended_early: the choice finished before the engine did (a stop string, a stop token that the
        engine does not know, one call too many), so the engine must be stopped.
    calls: the outcome of each tool call; empty until the choice finishes.
    open_calls: the calls that no client may execute (`DeltaBuilder.open_calls`).
    """

    def __init__(
        self,
        params: PostprocessParams,
        index: int,
        prompt_token_ids: Sequence[int],
        setup: PostprocessSetup,
        clock: StageClock,
    ) -> None:
        """Build the stages of choice `index`.

        Raises `ParserFailedError` if the parser cannot be built and `on_error` is "fail".
        """
        detokenizers, parsers = setup.detokenizers, setup.parsers
        # Some parsers must see special tokens that the client must not see.
        options, request = params.detokenizer, params.parser
        shows = request.reads_forced_json or parsers.shows_special_tokens(request)
        hides = shows and options.skip_special_tokens
        if shows:
            options = msgspec.structs.replace(options, skip_special_tokens=False)
        self._params = params
        self._clock = clock
        self._detokenizer = clock.measure("detokenize", detokenizers(options, prompt_token_ids))
        fallback = FallbackParser(
            parsers, request, prompt_token_ids, params.response_id, setup.on_error, setup.report
        )
        self.fallback = fallback = clock.measure("parse", fallback)
        hiding = SpecialTokenHider(fallback, detokenizers.is_special) if hides else fallback
        self.stop = _build_stop_filter(params, hiding, clock) if params.stop else None
        self.parser = self.stop or hiding
        self.deltas = clock.measure(
            "write", DeltaBuilder(index, request, parsers.breaks_before_calls)
        )
        self.hold = CallHold(request, self.deltas) if request.regenerates else None
        self._written = self.hold or self.deltas
        self._logprobs = _build_logprobs(params, detokenizers)
        self.reads_runs = not hides and _reads_runs(params)
        self._annotates = params.annotates_tokens
        self._stop_token_ids = frozenset(params.stop_token_ids)
        self.pending: list[DeltaKind] = self.deltas.pending
        self.tokens = 0
        self.finished = False
        self.ended_early = False
        self.calls: list[CallOutcome] = []
        self.open_calls: Mapping[int, str] = {}

    @property
    def held_tokens(self) -> int:
        """Number of last tokens that another attempt at their call may take back."""
        return 0 if self.hold is None or self.finished else self.tokens - self.hold.kept

    @property
    def faulty(self) -> FaultyCall | None:
        """The call that is to be generated again. Then nothing of it leaves, and no end."""
        return None if self.hold is None else self.hold.faulty

    @property
    def reasoning_tokens(self) -> int:
        """Number of reasoning tokens so far, without markers."""
        return self.fallback.reasoning_tokens

    def feed(self, chunk: Chunk) -> None:
        """Process the tokens of `chunk`.

        Tokens after the finish are dropped: the engine may run ahead of our stop.
        Raises `ParserFailedError` if the parser raises and `on_error` is "fail".
        """
        stops = False
        if self._stop_token_ids and (end := self._find_stop(chunk.token_ids)) is not None:
            stops, chunk = chunk.finish_reason is None, chunk.end_at(end)
        token_ids = chunk.token_ids
        ends = chunk.finish_reason is not None
        start = self._take_run(token_ids[:-1] if ends else token_ids) if self.reads_runs else 0
        for position in range(start, len(token_ids)):
            if self.finished:
                break
            self._take_token(chunk, position)
            self._settle()
        if ends and not self.finished:
            self._end("", (), chunk)
        if stops:
            self.ended_early = True

    def _find_stop(self, token_ids: Sequence[int]) -> int | None:
        first = max(self._params.min_tokens - self.tokens, 0)
        for position in range(first, len(token_ids)):
            if token_ids[position] in self._stop_token_ids:
                return position
        return None

    @property
    def annotated(self) -> int:
        """Number of last tokens whose ids or logprobs are in no delta that was taken."""
        return self.deltas.annotated

    @property
    def logprobs(self) -> list[TokenLogprob]:
        """The logprobs of the tokens that are in no delta that was taken."""
        return self.deltas.logprobs

    def take_times(self) -> list[StageTime]:
        """Return the time spent in each stage since the last call, if it is measured."""
        return self._clock.take(self.tokens)

    def degrade(self, error: Exception) -> None:
        """Continue without the parser, as if it had raised `error`.

        Raises `ParserFailedError` if `on_error` is "fail".
        """
        if not self.finished:
            self._write(self.fallback.degrade(error))

    def _take_run(self, token_ids: Sequence[int]) -> int:
        """Process ordinary tokens together, without the token that ends generation.

        Return how many were processed: all, or 0 if there is a marker among them.
        """
        count = len(token_ids)
        if count == 1:
            text = self._detokenizer.feed(token_ids[0])
        elif count and self.fallback.reads_together(token_ids):
            text = self._detokenizer.feed_all(token_ids)
        else:
            return 0
        self.tokens += count
        for event in self.parser.feed(text, token_ids):
            self._written.write(event)
        return count

    def _take_token(self, chunk: Chunk, position: int) -> None:
        self.tokens += 1
        params, token_id = self._params, chunk.token_ids[position]
        hidden = not params.parser.include_reasoning and self.fallback.in_reasoning
        if chunk.finish_reason is not None and position == len(chunk.token_ids) - 1:
            # The client does not see the token that ends generation (end of sequence, a stop
            # token), but parsers read its id.
            shows = chunk.finish_reason != "stop" or params.include_stop_str_in_output
            self._end(self._detokenizer.feed(token_id) if shows else "", (token_id,), chunk)
        else:
            self._write(self.parser.feed(self._detokenizer.feed(token_id), (token_id,)))
            stop = self.stop
            if stop is not None and stop.matched is not None and not self.finished:
                self._finish("stop", stop.matched, cut=False, early=True)
        if self._annotates:
            self._annotate(chunk, position, None if hidden else token_id)

    def _settle(self) -> None:
        """Let leave what no other attempt at a call can take back."""
        if self.hold is not None and not self.finished:
            self.hold.settle(self.tokens, self.fallback)

    def _annotate(self, chunk: Chunk, position: int, token_id: int | None) -> None:
        """Add the token's id and logprobs to the delta that it produced. None: hidden."""
        logprob, builder = None, self._logprobs
        has_logprobs = len(chunk.logprobs or ()) == len(chunk.token_ids)
        if builder is not None and has_logprobs and token_id is not None:
            logprob = builder.build(chunk, position)
        self._written.annotate(token_id if self._params.return_token_ids else None, logprob)

    def _write(self, events: list[Event]) -> None:
        parser = self._params.parser
        for event in events:
            if isinstance(event, Reasoning) and not parser.include_reasoning:
                continue
            starts = isinstance(event, ToolCallStarted)
            if starts and self._written.calls and not parser.parallel_tool_calls:
                self._finish("stop", None, cut=False, early=True)
            if self.finished:
                return
            self._written.write(event)

    def _end(self, text: str, token_ids: Sequence[int], chunk: Chunk) -> None:
        """Process the last token, release the text that the parser holds back, and finish."""
        reason, stop_reason = chunk.finish_reason or "stop", chunk.stop_reason
        events = self.parser.finish(text, token_ids, cut=reason != "stop")
        stop = self.stop
        if stop is not None and stop.matched is not None:
            reason, stop_reason = "stop", stop.matched
        self._write(events)
        if not self.finished:
            self._finish(reason, stop_reason, cut=reason != "stop", early=False)

    def _finish(
        self, finish_reason: str, stop_reason: str | int | None, *, cut: bool, early: bool
    ) -> None:
        if self.hold is not None and not self.hold.end(self.tokens, self.fallback, cut=cut):
            return  # its last call is to be generated again
        self.finished = True
        self.ended_early = early
        # This includes a named tool_choice, for which OpenAI says "stop": Dynamo's HTTP layer
        # says "tool_calls" when it does not stream, and both must agree.
        self.open_calls = self.deltas.open_calls(stopped=finish_reason == "stop")
        if finish_reason == "stop" and self.deltas.calls and not self.open_calls:
            finish_reason = "tool_calls"
        fallback = self.fallback
        self.calls = self.deltas.call_outcomes(cut=cut, failed=fallback.failed)
        self.calls += ["dropped"] * fallback.dropped_calls
        if holds_call(self.deltas.first_content, self._params.parser.tools):
            self.calls.append("content")
        reported = self.open_calls if self._params.reports_calls else None
        self.deltas.finish(finish_reason, stop_reason, cut=cut, reported=reported)
