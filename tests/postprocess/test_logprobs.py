"""Entries of logprobs: exact bytes, ranked alternatives, numbers that JSON has."""

import math

import msgspec
import pytest
from backedge.postprocess.logprobs import LEAST, LogprobBuilder
from backedge.postprocess.messages import Chunk, EngineLogprob, TokenLogprob
from hypothesis import given
from hypothesis import strategies as st

from tests.support import encode, tiny_detokenizers

LOGPROBS = st.floats(max_value=0.0) | st.sampled_from([math.nan, math.inf, -math.inf])


def build(chunk, alternatives=2, *, as_token_ids=False):
    builder = LogprobBuilder(tiny_detokenizers(), alternatives, as_token_ids=as_token_ids)
    return [builder.build(chunk, position) for position in range(len(chunk.token_ids))]


@given(st.text(max_size=20), st.data())
def test_the_bytes_of_all_tokens_are_those_of_the_text(text, data):
    token_ids = encode(text)
    logprobs = data.draw(st.lists(LOGPROBS, min_size=len(token_ids), max_size=len(token_ids)))
    entries = build(Chunk(token_ids=token_ids, logprobs=logprobs))
    assert b"".join(bytes(entry.bytes) for entry in entries) == text.encode()
    assert [entry.logprob for entry in entries] == [
        max(value, LEAST) if math.isfinite(value) else LEAST for value in logprobs
    ]
    # msgspec writes null for a number that JSON does not have.
    assert msgspec.json.decode(msgspec.json.encode(entries), type=list[TokenLogprob]) == entries


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


NO_NUMBERS = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_alternatives_without_a_number_come_last(value):
    alternatives = [EngineLogprob(5, None, value), EngineLogprob(6, None, -3.0)]
    [entry] = build(Chunk(token_ids=[6], logprobs=[value], top_logprobs=[alternatives]))
    assert [top.logprob for top in entry.top_logprobs] == [-3.0, LEAST]


def test_tokens_without_a_list_of_alternatives_have_none():
    entries = build(Chunk(token_ids=[5, 6], logprobs=[-0.1, -0.2], top_logprobs=[[]]))
    assert [entry.top_logprobs for entry in entries] == [[], []]
