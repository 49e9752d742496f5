"""A stream that a second worker resumes goes on exactly where the first one stopped."""

import pytest
from backedge.postprocess import Chunk, Postprocessor
from backedge.postprocess.chunk_scheduler import ChunkScheduler
from backedge.postprocess.delta_builder import aggregate_deltas
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.postprocess.scheduled import (
    Case,
    cases,
    delays,
    normal,
    parse_engine_output,
    played,
    scheduling_settings,
)
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
    assert second.resume(TOKENS[:died_at]) == []
    rest = [*chunks(TOKENS[died_at:], range(len(TOKENS)), "length")]
    seen += feed(second, rest)
    assert message(aggregate_deltas(seen)) == message(expected)
    assert second.usage == whole.usage


@pytest.mark.parametrize("stream", [True, False])
def test_tokens_that_end_the_choice_bring_its_finish(stream):
    second = postprocess(stop=["END"], stream=stream)
    [delta] = second.resume(TOKENS)
    assert (delta.finish_reason, delta.stop_reason) == ("stop", "END")
    assert delta.delta.content == (None if stream else "ab 世界 😀 ")


def test_the_prompt_of_the_second_worker_is_not_counted_as_prompt():
    second = postprocess()
    second.resume(TOKENS[:4])
    second.feed(Chunk(token_ids=TOKENS[4:5], prompt_tokens=9 + 4))
    assert (second.usage.prompt_tokens, second.usage.completion_tokens) == (9, 5)


@scheduling_settings
@given(case=cases(n=1, continuous_usage_stats=False), merging=delays, data=st.data())
def test_ids_and_logprobs_of_a_worker_that_died_are_all_there(case: Case, merging, data):
    """The client has the chunks that the first worker sent; the second gets their tokens."""
    first, second = (ChunkScheduler(case.post(), merging) for _ in range(2))
    first_sent = [sent.scheduled for sent in played(first, case.arrivals)]
    died_at = data.draw(st.integers(0, len(first_sent) - 1))
    arrived = first_sent[:died_at]
    token_ids = [token_id for scheduled in arrived for token_id in scheduled.token_ids]
    second.resume(token_ids, 0.0)
    rest, count = [], len(token_ids)
    if second.due == 0.0:
        rest += second.take(0.0)
    else:
        assume(count < len(case.tokens[0]))  # not only the finish is left, without a token
        for position in range(count, len(case.tokens[0])):
            last = position == len(case.tokens[0]) - 1
            reason = case.reasons[0] if last else None
            chunk = parse_engine_output(0, case.tokens[0], position, position + 1, reason)
            second.add(chunk, 1.0)
        second.flush(1.0)
        rest += second.take(1.0)
    seen = [delta for scheduled in (*arrived, *rest) for delta in scheduled.deltas]
    [whole], _ = case.one_by_one
    assert normal(aggregate_deltas(seen)) == normal(whole) | {"role": "assistant"}
