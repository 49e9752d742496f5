"""A stream that a second worker resumes goes on exactly where the first one stopped."""

import pytest
from backedge.postprocess import Chunk, Postprocessor
from backedge.postprocess.aggregate import aggregate_deltas
from backedge.postprocess.migration import resume
from hypothesis import given
from hypothesis import strategies as st

from tests.support import chunks, encode, feed, message, params, tiny_detokenizers

TEXT = "ab 世界 😀 END cd"
TOKENS = encode(TEXT)


def postprocess(**fields):
    return Postprocessor(params(prompt_length=9, **fields), tiny_detokenizers())


@given(died_at=st.integers(0, len(TOKENS)), stream=st.booleans())
def test_both_parts_make_the_whole(died_at, stream):
    whole = postprocess(stream=stream)
    expected = aggregate_deltas(feed(whole, chunks(TOKENS, range(len(TOKENS)), "length")))
    first, second = postprocess(stream=stream), postprocess(stream=stream)
    seen = feed(first, [Chunk(token_ids=[token_id]) for token_id in TOKENS[:died_at]])
    assert resume(second, TOKENS[:died_at]) == []
    rest = [*chunks(TOKENS[died_at:], range(len(TOKENS)), "length")]
    seen += feed(second, rest)
    assert message(aggregate_deltas(seen)) == message(expected)
    assert second.usage == whole.usage


@pytest.mark.parametrize("stream", [True, False])
def test_tokens_that_end_the_choice_bring_its_finish(stream):
    second = postprocess(stop=["END"], stream=stream)
    [delta] = resume(second, TOKENS)
    assert (delta.finish_reason, delta.stop_reason) == ("stop", "END")
    assert delta.delta.content == (None if stream else "ab 世界 😀 ")


def test_the_prompt_of_the_second_worker_is_not_counted_as_prompt():
    second = postprocess()
    resume(second, TOKENS[:4])
    second.feed(Chunk(token_ids=TOKENS[4:5], prompt_tokens=9 + 4))
    assert (second.usage.prompt_tokens, second.usage.completion_tokens) == (9, 5)
