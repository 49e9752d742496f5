"""Post-processing of all choices of one request: the entry points for workers and for others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import msgspec

from ..base.errors import ParserFailedError
from ..base.log import get_logger
from ..parsers.base import ParserFactory, ParserNames
from ..parsers.parser_lookup import linear_parsers
from ..parsers.passthrough import PassthroughParsers
from ..tokenization.detokenizer import DetokenizerFactory, detokenizers, read_vocabulary
from .choice import Choice, PostprocessSetup
from .delta_builder import aggregate_deltas
from .fallback import FallbackParser, Report
from .messages import ChoiceDelta, Chunk, Delta, PostprocessParams, Usage
from .settings import OnError
from .stage_timing import Clock, StageClock
from .usage import UsageCounter

logger = get_logger(__name__)


def log_failure(failure: ParserFailedError) -> None:
    """Log a parser's failure; the default for `report`."""
    logger.error("%s", failure, exc_info=failure.__cause__)


class Postprocessor:
    """Turns the chunks of one request into OpenAI deltas, for all its choices.

    If `params.stream` is False, each choice gives one delta, at its finish.

    choices: read only; change them through the methods of this class.
    usage_counter: counts the tokens of the request.
    """

    def __init__(
        self,
        params: PostprocessParams,
        detokenizers: DetokenizerFactory,
        parsers: ParserFactory | None = None,
        *,
        prompt_token_ids: Sequence[int] = (),
        on_error: OnError = "degrade",
        report: Report = log_failure,
        clock: Clock | None = None,
    ) -> None:
        """Build all choices.

        parsers: None for a model without parsers. prompt_token_ids: of the rendered prompt,
            without generated tokens; parsers check whether it leaves reasoning open.
        on_error: whether a parser that raises fails this request. report: called with the failure.
        clock: measures the stages; None to measure nothing.
        Raises `ParserFailedError` if a parser cannot be built and `on_error` is "fail", or if
        anything else raises.
        """
        self.params = params
        self.choices: tuple[Choice, ...] = ()
        parsers = parsers or PassthroughParsers()
        self._parsers_name = parsers.name
        setup = PostprocessSetup(detokenizers, parsers, on_error, report)
        try:
            self.choices = tuple(
                Choice(params, index, prompt_token_ids, setup, StageClock(clock))
                for index in range(params.n)
            )
        except BaseException as error:  # noqa: BLE001 - a tokenizer is third-party code
            self._fail(error)
        self.usage_counter = UsageCounter(params.prompt_length)

    @property
    def finished(self) -> bool:
        """Whether every choice has finished."""
        return all(choice.finished for choice in self.choices)

    @property
    def ended_early(self) -> bool:
        """Whether a choice finished before the engine, which must then be stopped."""
        return any(choice.ended_early for choice in self.choices)

    @property
    def usage(self) -> Usage:
        """Number of tokens so far."""
        return self.usage_counter.total(self.choices)

    def feed(self, chunk: Chunk) -> list[ChoiceDelta]:
        """Return the deltas that `chunk` completes.

        Raises IndexError for a choice that the request does not have, and `ParserFailedError` if
        a parser raises and `on_error` is "fail", or if anything else in post-processing raises.
        """
        self.add(chunk)
        return self.take(chunk.index)

    def resume(self, token_ids: Sequence[int], index: int = 0) -> list[ChoiceDelta]:
        """Feed tokens of a choice whose deltas the client already got from another process.

        When a worker dies, Dynamo sends its request to another one and appends the tokens generated
        so far to the prompt. They only bring detokenizer, stop strings and parser up to date.
        Return no deltas unless the tokens end the choice: then its finish, which the client may not
        have got, or the whole answer if it is not streamed. Raises as `feed`.
        """
        if not token_ids:
            return []
        self.usage_counter.resume(len(token_ids))
        deltas = self.feed(Chunk(index=index, token_ids=list(token_ids)))
        if not self.choices[index].finished:
            return []
        if not self.params.stream:
            return deltas
        return [msgspec.structs.replace(deltas[-1], delta=Delta(), logprobs=None, token_ids=None)]

    def add(self, chunk: Chunk) -> None:
        """Process `chunk`; `take` returns the deltas. Raises as `feed`."""
        if chunk.prompt_tokens is not None or chunk.cached_tokens is not None:
            self.usage_counter.read(chunk)
        choice = self.choices[chunk.index]
        if choice.finished:
            return
        try:
            choice.feed(chunk)
        except BaseException as error:  # noqa: BLE001 - a tokenizer is third-party code
            self._fail(error)

    def take(self, index: int) -> list[ChoiceDelta]:
        """Return the deltas of a choice since the last call.

        If `params.stream` is False, that is one delta, at the finish. Raises as `feed`.
        """
        choice = self.choices[index]
        try:
            if self.params.stream:
                return choice.deltas.take()
            if not choice.finished or not choice.pending:
                return []
            return [aggregate_deltas(choice.deltas.take(), choice.open_calls)]
        except BaseException as error:  # noqa: BLE001 - only this request may fail
            self._fail(error)

    def degrade(self, index: int, error: Exception) -> None:
        """Continue without a choice's parser, as if it had raised `error`. Raises as `feed`."""
        self.choices[index].degrade(error)

    def _fail(self, error: BaseException) -> NoReturn:
        """Raise `error` as a failure of this request only, logged with its traceback."""
        if isinstance(error, ParserFailedError | KeyboardInterrupt):
            raise error
        position = sum(choice.tokens for choice in self.choices)
        request_id = self.params.response_id
        failure = ParserFailedError(self._parsers_name, request_id, position, error)
        logger.error("%s", failure, exc_info=error)
        raise failure from error


def starts_in_reasoning(
    params: PostprocessParams,
    parsers: ParserFactory,
    prompt_token_ids: Sequence[int],
    report: Report = log_failure,
    *,
    opened: bool = False,
) -> bool:
    """Return whether the first token of an answer to this prompt counts as reasoning.

    If the parser cannot be built, report that and return False.
    opened: a header that may lead to reasoning does not count.
    """
    parser = FallbackParser(
        parsers, params.parser, prompt_token_ids, params.response_id, "degrade", report
    )
    return parser.continues_reasoning if opened else parser.in_reasoning


def postprocessor(
    params: PostprocessParams,
    tokenizer: Any,
    *,
    tool_call_parser: str | None = None,
    reasoning_parser: str | None = None,
    prompt_token_ids: Sequence[int] = (),
) -> Postprocessor:
    """Build a `Postprocessor` for one request, with the linear parsers.

        post = postprocessor(params, tokenizer, tool_call_parser="hermes", reasoning_parser="qwen3")
        for out in post.feed(Chunk(index=0, token_ids=[...], finish_reason=None)):
            ...                                 # out.delta is an OpenAI delta

    tokenizer: as for `detokenizers`. Reading one takes milliseconds, so for many requests of one
    model build `detokenizers(tokenizer)` and the parsers once and construct `Postprocessor`.
    Raises `UnknownParserError` if no linear parser has that name.
    """
    return Postprocessor(
        params,
        detokenizers(tokenizer),
        linear_parsers(ParserNames(tool_call_parser, reasoning_parser), read_vocabulary(tokenizer)),
        prompt_token_ids=prompt_token_ids,
    )
