"""The protocol's messages: there and back, newer and older peers, foreign text."""

import msgspec
import pytest
from backedge.base.errors import ProtocolError
from backedge.parsers.base import ParserRequest
from backedge.postprocess.messages import (
    VERSION,
    ChoiceDelta,
    Chunk,
    Delta,
    PostprocessedChunk,
    Usage,
    WorkerCard,
    decode,
    encode,
    read,
)

from tests.support import params

MESSAGES = [
    params(stop=["END"], logprobs=3, parser=ParserRequest(tool_choice="auto")),
    PostprocessedChunk(deltas=[ChoiceDelta(0, Delta(content="世"))], usage=Usage(1, 2)),
    WorkerCard(engine="vllm", engine_version="0.31.0", reasoning_parser="qwen3"),
]
KINDS = [type(message) for message in MESSAGES]


@pytest.mark.parametrize("message", MESSAGES, ids=[kind.__name__ for kind in KINDS])
def test_a_message_comes_back(message):
    assert decode(type(message), encode(message)) == message
    assert read(type(message), encode(message)) == message


@pytest.mark.parametrize("message", MESSAGES, ids=[kind.__name__ for kind in KINDS])
def test_fields_of_a_newer_peer_are_ignored(message):
    fields = {**msgspec.json.decode(encode(message)), "added_later": [1]}
    assert decode(type(message), msgspec.json.encode(fields).decode()) == message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rest", ["", ', "model": 5, "deltas": {}, "engine": []'])
def test_a_newer_version_is_left_alone(kind, rest):
    text = f'{{"version": {VERSION + 1}{rest}}}'
    assert read(kind, text) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["", "null", "[]", '"text"', '{"version": "1"}', "{"])
def test_foreign_text_is_an_error(kind, text):
    with pytest.raises(ProtocolError, match=f"not a {kind.__name__} of version {VERSION}"):
        read(kind, text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [None, {}, 5, b"{}"])
def test_a_value_that_is_no_text_is_no_message(kind, value):
    assert read(kind, value) is None


@pytest.mark.parametrize(
    ("fields", "annotates"),
    [({}, False), ({"logprobs": 0}, True), ({"return_token_ids": True}, True)],
)
def test_whether_tokens_are_annotated(fields, annotates):
    assert params(**fields).annotates_tokens is annotates


def test_a_chunk_is_cut():
    chunk = Chunk(
        index=1, token_ids=[5, 6, 7], logprobs=[1, 2, 3], finish_reason="stop", stop_reason=7
    )
    last = Chunk(index=1, token_ids=[7], logprobs=[3], finish_reason="stop", stop_reason=7)
    assert chunk.cut(0, 2) == Chunk(index=1, token_ids=[5, 6], logprobs=[1, 2])
    assert chunk.cut(2, 3) == last
