"""Runs text through the whole post-processor, cut into chunks as a test likes."""

from __future__ import annotations

import functools
import importlib.util
import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from backedge.base.errors import ParserFailedError
from backedge.engines.vllm.parsers import VllmParsers
from backedge.parsers.api import Engine
from backedge.parsers.base import ParserFactory, ParserNames, ParserRequest, StreamParser
from backedge.parsers.events import Event
from backedge.parsers.parser_lookup import Kind, linear_parsers
from backedge.postprocess import (
    ChoiceDelta,
    Chunk,
    DetokenizerOptions,
    Postprocessor,
    PostprocessParams,
    detokenizers,
)
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.tokenization.detokenizer import DetokenizerFactory, read_vocabulary

from benchmarks.samples.sample import Call, Outcome, Sample
from benchmarks.samples.tokenizers import encode, end_of_turn, load_tokenizer
from tests.parsers.cases import Case
from tests.parsers.event_outcome import parse_arguments


# These read a tokenizer's whole vocabulary, which takes longer than most cases.
@functools.cache
def cached_detokenizers(tokenizer: Any) -> DetokenizerFactory:
    return detokenizers(tokenizer)


@functools.cache
def cached_linear_parsers(names: ParserNames, tokenizer: Any) -> ParserFactory:
    return linear_parsers(names, read_vocabulary(tokenizer))


def feed_tokens(
    parser: StreamParser, tokenizer: Any, text: str, *, skip_special_tokens: bool = True
) -> list[Event]:
    """Return the events of the tokens of `text`, fed one by one."""
    options = DetokenizerOptions(skip_special_tokens, spaces_between_special_tokens=False)
    detokenizer = cached_detokenizers(tokenizer)(options, ())
    return [
        event
        for token_id in encode(tokenizer, text)
        for event in parser.feed(detokenizer.feed(token_id), [token_id])
    ]


@dataclass
class SampleModel:
    """A model's tokenizer and parsers, and one request to it.

    chunks: what `feed` returned, one list per chunk. failures: what the guard reported.
    """

    tokenizer: Any
    parsers: ParserFactory | None
    params: PostprocessParams
    prompt_token_ids: list[int]
    chunks: list[list[ChoiceDelta]] = field(default_factory=list)
    failures: list[ParserFailedError] = field(default_factory=list)

    def run(self, chunks: Sequence[Chunk]) -> ChoiceDelta:
        """Feed `chunks` to a new post-processor; return choice 0 as a whole."""
        self.chunks, self.failures = [], []
        self.post = Postprocessor(
            self.params,
            cached_detokenizers(self.tokenizer),
            self.parsers,
            prompt_token_ids=self.prompt_token_ids,
            report=self.failures.append,
        )
        for chunk in chunks:
            self.chunks.append(self.post.feed(chunk))
        return aggregate_deltas(
            [delta for deltas in self.chunks for delta in deltas if delta.index == 0]
        )


def cut(
    token_ids: Sequence[int], cuts: Collection[int], finish_reason: str = "stop"
) -> list[Chunk]:
    """Return `token_ids` cut before each position of `cuts`; the last chunk finishes."""
    positions = [
        0,
        *sorted({position for position in cuts if 0 < position < len(token_ids)}),
        len(token_ids),
    ]
    pieces = [list(token_ids[start:end]) for start, end in itertools.pairwise(positions)]
    return [
        Chunk(token_ids=piece, finish_reason=finish_reason if number == len(pieces) else None)
        for number, piece in enumerate(pieces, start=1)
    ]


def build_parsers(
    sample: Sample,
    names: ParserNames,
    kind: Kind = "native",
    engine: Engine = "vllm",
) -> ParserFactory:
    """Return the parsers; raises `UnusableParserError` as at a worker's start."""
    tokenizer = load_tokenizer(sample)
    if kind == "linear":
        return cached_linear_parsers(names, tokenizer)
    if engine == "sglang":
        # Late: the import takes seconds, which tests of the other engine need not wait for.
        from backedge.engines.sglang.parsers import SglangParsers

        return SglangParsers(tokenizer, names)
    model_config = SimpleNamespace(hf_config=SimpleNamespace(model_type=sample.architecture))
    return VllmParsers(tokenizer, names, model_config if sample.architecture else None)


def build_case_parsers(case: Case) -> ParserFactory:
    """Return the native parsers of `case`; raises `UnusableParserError` as at a worker's start."""
    return build_parsers(case.sample, case.names, engine=case.engine)


def build_model(sample: Sample, parsers: ParserFactory) -> SampleModel:
    """Return the model that wrote `sample`, with the request it answered."""
    tokenizer = load_tokenizer(sample)
    request = ParserRequest(
        tools=list(sample.tools),
        tool_choice="auto" if sample.tools else "none",
        chat_template_kwargs=sample.chat_template_kwargs,
    )
    prompt = encode(tokenizer, sample.prompt)
    params = PostprocessParams(
        response_id="chatcmpl-1",
        created=1,
        model="sample",
        prompt_length=len(prompt),
        detokenizer=DetokenizerOptions(spaces_between_special_tokens=False),
        parser=request,
    )
    return SampleModel(tokenizer, parsers, params, prompt)


def encode_output(model: SampleModel, sample: Sample) -> list[int]:
    """Return the output's tokens with the one that ends the turn."""
    return [*encode(model.tokenizer, sample.output), *end_of_turn(model.tokenizer, sample)]


def read_outcome(whole: ChoiceDelta) -> Outcome:
    """Return what the client got."""
    delta = whole.delta
    return Outcome(
        delta.reasoning_content,
        delta.content,
        tuple(
            Call(call.function.name or "", parse_arguments(call.function.arguments))
            for call in delta.tool_calls
        ),
    )


def is_missing(sample: Sample) -> bool:
    """Whether the module that the parser needs is not installed."""
    return sample.needs is not None and importlib.util.find_spec(sample.needs) is None


def every_token(token_ids: Sequence[int]) -> list[Chunk]:
    """Return one chunk per token."""
    return cut(token_ids, range(len(token_ids)))


def as_one(token_ids: Sequence[int]) -> list[Chunk]:
    """Return all in one chunk."""
    return cut(token_ids, ())
