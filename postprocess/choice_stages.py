"""Builds the stages of one choice for its request: detokenizer, parser, deltas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ..parsers.base import ParserFactory
from ..tokenization.detokenizer import Detokenizer, DetokenizerFactory
from .delta_builder import DeltaBuilder
from .fallback import FallbackParser, OnError, Report
from .logprobs import LogprobBuilder
from .messages import PostprocessParams
from .special_tokens import SpecialTokenHider
from .stage_timing import StageClock
from .stop_matcher import StopStringFilter
from .stop_strings import StopFilteredParser


@dataclass(slots=True)
class ChoiceStages:
    """The stages that a token passes through, in this order.

    parser: the model's parser, possibly wrapped in filters that the request needs.
    fallback: the innermost parser, which counts reasoning and handles failures.
    stop: `parser` if the request has stop strings, else None.
    reads_runs: ordinary tokens may be processed together, because only their text matters.
    """

    clock: StageClock
    detokenizer: Detokenizer
    parser: FallbackParser | SpecialTokenHider | StopFilteredParser
    fallback: FallbackParser
    stop: StopFilteredParser | None
    deltas: DeltaBuilder
    logprobs: LogprobBuilder | None
    reads_runs: bool


@dataclass(slots=True)
class PostprocessSetup:
    """The settings that all requests of a model share.

    on_error: whether a parser that raises fails its request. report: called with the failure.
    """

    detokenizers: DetokenizerFactory
    parsers: ParserFactory
    on_error: OnError
    report: Report


def build_stages(
    params: PostprocessParams,
    index: int,
    prompt_token_ids: Sequence[int],
    setup: PostprocessSetup,
    clock: StageClock,
) -> ChoiceStages:
    """Return the stages of choice `index`.

    Raises `ParserFailedError` if the parser cannot be built and `on_error` is "fail".
    """
    detokenizers, parsers = setup.detokenizers, setup.parsers
    # Some parsers must see special tokens that the client must not see.
    options, shows = params.detokenizer, parsers.shows_special_tokens(params.parser)
    hides = shows and options.skip_special_tokens
    if shows:
        options = msgspec.structs.replace(options, skip_special_tokens=False)
    detokenizer = detokenizers(options, prompt_token_ids)
    fallback = FallbackParser(
        parsers, params.parser, prompt_token_ids, params.response_id, setup.on_error, setup.report
    )
    fallback = clock.measure("parse", fallback)
    hiding = SpecialTokenHider(fallback, detokenizers.is_special) if hides else fallback
    stop = _build_stop_filter(params, hiding, clock) if params.stop else None
    return ChoiceStages(
        clock,
        clock.measure("detokenize", detokenizer),
        stop or hiding,
        fallback,
        stop,
        clock.measure("write", DeltaBuilder(index, params.parser)),
        _build_logprobs(params, detokenizers),
        not hides and _reads_runs(params),
    )


def _build_stop_filter(
    params: PostprocessParams, parser: FallbackParser | SpecialTokenHider, clock: StageClock
) -> StopFilteredParser:
    stops = StopStringFilter(
        params.stop,
        include=params.include_stop_str_in_output,
        # A parser that reads both ids and text gets the text of each token whole.
        splits=not parser.token_aligned,
    )
    return StopFilteredParser(parser, clock.measure("stop", stops), params.min_tokens)


def _build_logprobs(
    params: PostprocessParams, detokenizers: DetokenizerFactory
) -> LogprobBuilder | None:
    if params.logprobs is None:
        return None
    return LogprobBuilder(
        detokenizers, params.logprobs, as_token_ids=params.return_tokens_as_token_ids
    )


def _reads_runs(params: PostprocessParams) -> bool:
    return not (
        params.stop
        or params.annotates_tokens
        or not params.parser.include_reasoning
        or not params.parser.parallel_tool_calls
    )
