"""The stages of one choice, put together for its request: detokenizer, parser, deltas."""

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
from .stop import StopStringFilter
from .stop_filter import StopFilteredParser


@dataclass(slots=True)
class ChoiceStages:
    """What a token passes through, in this order.

    parser: the model's own, alone or with what the request adds around it.
    fallback: the innermost one, which knows of reasoning and of failure.
    stop: `parser` if the request has stop strings.
    reads_runs: only the text of the tokens counts, so ordinary ones may be read together.
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
    """What all requests of a model share.

    on_error: what a parser that raises does to its request. report: called with the failure.
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

    Raises `ParserFailedError` if the parser cannot be built and that is to fail the request.
    """
    detokenizers, parsers = setup.detokenizers, setup.parsers
    # Some parsers have to see special tokens that the client is not to see.
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
        # A parser that reads ids beside the text gets each token's text whole.
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
