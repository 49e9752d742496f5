"""Entries of logprobs: exact bytes, ranked alternatives, numbers that JSON has."""

import json

import msgspec
import pytest
from backedge.postprocess.logprobs import LEAST, LogprobBuilder
from backedge.postprocess.messages import Chunk, EngineLogprob
from hypothesis import given
from hypothesis import strategies as st

from tests.support import encode, tiny_detokenizers

LOGPROBS = st.floats(max_value=0.0, allow_nan=False)


def build(chunk, alternatives=2, *, as_token_ids=False):
    builder = LogprobBuilder(tiny_detokenizers(), alternatives, as_token_ids=as_token_ids)
    return [builder.build(chunk, position) for position in range(len(chunk.token_ids))]


@given(st.text(max_size=20), st.data())
def test_the_bytes_of_all_tokens_are_those_of_the_text(text, data):
    token_ids = encode(text)
    logprobs = data.draw(st.lists(LOGPROBS, min_size=len(token_ids), max_size=len(token_ids)))
    entries = build(Chunk(token_ids=token_ids, logprobs=logprobs))
    assert b"".join(bytes(entry.bytes) for entry in entries) == text.encode()
    assert [entry.logprob for entry in entries] == [max(value, LEAST) for value in logprobs]
    json.loads(msgspec.json.encode(entries))  # no infinity


RANKED = [
    ([EngineLogprob(5, 2, -2.0), EngineLogprob(6, 1, -0.1), EngineLogprob(7, 3, -3.0)], [6, 5]),
    ([EngineLogprob(5, None, -2.0), EngineLogprob(6, None, -0.1)], [6, 5]),
    ([EngineLogprob(5, None, -0.1), EngineLogprob(6, 9, -5.0)], [6, 5]),
    ([EngineLogprob(None, 1, -0.1), EngineLogprob(6, 2, -0.2)], [6]),
    ([], []),
]


@pytest.mark.parametrize(("alternatives", "token_ids"), RANKED)
def test_alternatives_by_rank_then_probability(alternatives, token_ids):
    chunk = Chunk(token_ids=[6], logprobs=[-0.1], top_logprobs=[alternatives])
    [entry] = build(chunk, as_token_ids=True)
    assert [top.token for top in entry.top_logprobs] == [
        f"token_id:{number}" for number in token_ids
    ]
    assert build(chunk, 0)[0].top_logprobs == []


def test_tokens_as_ids():
    [entry] = build(Chunk(token_ids=[6], logprobs=[-0.1]), as_token_ids=True)
    assert (entry.token, bytes(entry.bytes)) == ("token_id:6", b"token_id:6")
