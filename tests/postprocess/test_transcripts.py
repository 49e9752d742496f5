"""Every transcript through the whole core, with each kind of parsers, at any cut."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
import pytest
from backedge.engines.vllm.parsers import VllmParsers
from backedge.parsers.base import ParserFactory, ParserNames
from backedge.parsers.parser_lookup import Kind, linear_parsers
from backedge.postprocess import Chunk, Postprocessor, postprocessor
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.tokenization.detokenizer import read_vocabulary
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from tests.support import (
    TINY_MODEL,
    TRANSCRIPTS,
    Transcript,
    as_whole,
    chunks,
    encode,
    feed,
    message,
    params,
    parser_request,
    run,
    tiny_detokenizers,
    tiny_tokenizer,
)

ALL = pytest.mark.parametrize(
    "transcript", TRANSCRIPTS.values(), ids=lambda transcript: transcript["id"]
)


@functools.cache
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(TINY_MODEL)


@functools.cache
def build_parsers(kind: Kind) -> ParserFactory:
    if kind == "native":
        return VllmParsers(tokenizer(), ParserNames("hermes", "qwen3"))
    return linear_parsers(ParserNames("hermes", "qwen3"), read_vocabulary(tokenizer()))


@pytest.fixture(scope="module", params=["linear", "native"])
def parsers(request: pytest.FixtureRequest) -> ParserFactory:
    return build_parsers(request.param)


def prompt(transcript: Transcript) -> list[int]:
    text = tokenizer().apply_chat_template(
        transcript["messages"],
        tools=transcript.get("tools"),
        tokenize=False,
        add_generation_prompt=True,
        **transcript.get("chat_template_kwargs", {}),
    )
    return encode(text)


def answer(
    parsers: ParserFactory, transcript: Transcript, cuts: set[int], **fields: Any
) -> dict[str, Any]:
    token_ids = encode(transcript["output"])
    limit = transcript.get("max_tokens")
    parts = chunks(token_ids[:limit], cuts, "length" if limit else "stop")
    request = params(stop=transcript.get("stop", []), parser=parser_request(transcript), **fields)
    return message(run(request, parts, parsers, prompt(transcript)))


@ALL
@settings(max_examples=15, deadline=None)
@given(cuts=st.sets(st.integers(1, 700), max_size=12), stream=st.booleans())
def test_every_chunking_gives_the_transcript(
    parsers: ParserFactory, transcript: Transcript, cuts: set[int], stream: bool
) -> None:
    assert answer(parsers, transcript, cuts, stream=stream) == as_whole(transcript["expect"])


@ALL
def test_token_by_token_gives_the_transcript(
    parsers: ParserFactory, transcript: Transcript
) -> None:
    assert answer(parsers, transcript, set(range(1000))) == as_whole(transcript["expect"])


@pytest.mark.parametrize("transcript", [TRANSCRIPTS["reasoning_text"]], ids=["reasoning_text"])
@given(stops=st.lists(st.text("Them isu42.", min_size=1, max_size=5), min_size=1, max_size=3))
@settings(deadline=None)
def test_stop_strings_cut_the_answer_and_only_the_answer(
    parsers: ParserFactory, transcript: Transcript, stops: list[str]
) -> None:
    expected = transcript["expect"]
    found = [
        (expected["content"].find(stop) + len(stop), len(stop))
        for stop in stops
        if stop in expected["content"]
    ]
    end, length = min(found, key=lambda match: match[0], default=(len(expected["content"]), 0))
    request = params(stop=stops, parser=parser_request(transcript))
    whole = run(
        request, chunks(encode(transcript["output"]), range(1000)), parsers, prompt(transcript)
    )
    assert whole.delta.reasoning_content == expected["reasoning"]
    assert whole.delta.content == (expected["content"][: end - length] or None)


def test_pieces_reach_the_parser_whole_although_a_stop_string_cuts_them(
    parsers: ParserFactory,
) -> None:
    transcript = TRANSCRIPTS["stop_string"]
    request = params(stop=["amma, d", "gamma, delta", "ma"], parser=parser_request(transcript))
    for cuts in (set[int](), set(range(100))):
        whole = run(
            request, chunks(encode(transcript["output"]), cuts), parsers, prompt(transcript)
        )
        assert (whole.delta.content, whole.stop_reason) == ("alpha, beta, gam", "ma")


@ALL
@settings(max_examples=10, deadline=None)
@given(died_at=st.integers(1, 700))
def test_another_process_goes_on_anywhere(
    parsers: ParserFactory, transcript: Transcript, died_at: int
) -> None:
    """In the middle of a call, a character, a stop string: both parts make up the transcript."""
    token_ids = encode(transcript["output"])[: transcript.get("max_tokens")]
    request = params(stop=transcript.get("stop", []), parser=parser_request(transcript))
    first, second = (
        Postprocessor(request, tiny_detokenizers(), parsers, prompt_token_ids=prompt(transcript))
        for _ in range(2)
    )
    deltas = feed(first, [Chunk(token_ids=token_ids[:died_at])])
    if not first.finished:
        second.resume(token_ids[:died_at])
        rest = chunks(token_ids[died_at:], (), "length" if "max_tokens" in transcript else "stop")
        deltas += feed(second, rest)
    assert message(aggregate_deltas(deltas)) == as_whole(transcript["expect"])


def test_the_core_by_itself() -> None:
    transcript = TRANSCRIPTS["reasoning_call"]
    request = params(parser=parser_request(transcript))
    post = postprocessor(
        request,
        tiny_tokenizer(),
        tool_call_parser="hermes",
        reasoning_parser="qwen3",
        prompt_token_ids=prompt(transcript),
    )
    deltas = feed(post, chunks(encode(transcript["output"]), range(1000)))
    assert message(aggregate_deltas(deltas)) == transcript["expect"]


def test_hidden_reasoning(parsers: ParserFactory) -> None:
    transcript = TRANSCRIPTS["reasoning_text"]
    hidden = msgspec.structs.replace(parser_request(transcript), include_reasoning=False)
    whole = run(
        params(parser=hidden),
        chunks(encode(transcript["output"]), range(1000)),
        parsers,
        prompt(transcript),
    )
    assert message(whole) == {**transcript["expect"], "reasoning": None}
