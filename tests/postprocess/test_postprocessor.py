"""All choices of a request; and a named call that a grammar writes as an array, at any cut."""

from __future__ import annotations

import pytest
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.passthrough import PassthroughParsers
from backedge.postprocess import Chunk, Postprocessor, Usage
from backedge.postprocess.postprocessor import starts_in_reasoning
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import chunks, encode, message, params, run, tiny_detokenizers, tiny_parsers

TOOLS = [{"type": "function", "function": {"name": "f"}}]
NAMED = {"type": "function", "function": {"name": "f"}}
REQUEST = params(parser=ParserRequest(tools=TOOLS, tool_choice=NAMED, json_calls=True))
X = '{"x": "]}"}'
# What the model writes, why it ends, and the calls.
CASES = [
    (f'[{{"name": "f", "parameters": {X}}}]', "stop", [X]),
    (
        f' [ {{"name": "f", "parameters": {X}}}, {{"name": "f", "parameters": {{}}}} ]\n',
        "stop",
        [X, "{}"],
    ),
    ('[{"name": "f", "parameters": {"x": "a', "length", ['{"x": "a']),
    ('[{"name": "f", "parameters": {"x": "a', "stop", ['{"x": "a']),
]


@pytest.mark.parametrize(("text", "finish_reason", "calls"), CASES)
@settings(max_examples=40, deadline=None, database=None)
@given(cuts=st.sets(st.integers(0, 60)))
def test_calls(text: str, finish_reason: str, calls: list[str], cuts: set[int]) -> None:
    end = "<|im_end|>" if finish_reason == "stop" else ""
    answer = message(
        run(REQUEST, chunks(encode(text + end), cuts, finish_reason), PassthroughParsers())
    )
    whole = [call for call in calls if call.endswith("}") or finish_reason == "stop"]
    assert answer["tool_calls"] == [{"name": "f", "arguments": arguments} for arguments in whole]
    cut = "".join(f'{{"name": "f", "arguments": {each}' for each in calls[len(whole) :])
    assert (answer["content"] or "") == cut
    # A call that the model has left unfinished is not to be executed.
    complete = calls[-1].endswith("}") and finish_reason == "stop"
    assert answer["finish_reason"] == ("tool_calls" if complete else finish_reason)


def test_deltas_and_usage_of_several_choices():
    post = Postprocessor(params(n=2, prompt_length=4), tiny_detokenizers())
    first, second = encode("one"), encode("two words")
    assert [delta.index for delta in post.feed(Chunk(index=1, token_ids=second))] == [1]
    assert not post.finished
    post.add(Chunk(index=0, token_ids=first, finish_reason="stop", cached_tokens=3))
    assert post.take(0)[-1].finish_reason == "stop"
    post.feed(Chunk(index=1, finish_reason="length"))
    assert post.finished
    assert not post.ended_early
    assert post.usage == Usage(4, len(first) + len(second), 0, 3)
    with pytest.raises(IndexError):
        post.feed(Chunk(index=2, token_ids=first))


def test_without_a_stream_a_choice_is_one_delta_at_its_finish():
    post = Postprocessor(params(stream=False), tiny_detokenizers())
    token_ids = encode("some words")
    assert [post.feed(Chunk(token_ids=[token_id])) for token_id in token_ids] == [[]] * len(
        token_ids
    )
    [delta] = post.feed(Chunk(finish_reason="stop"))
    assert message(delta)["content"] == "some words"
    assert post.take(0) == []


def test_whether_an_answer_starts_in_reasoning():
    parsers = tiny_parsers(ParserNames(None, "qwen3"))
    opened, closed = encode("<think>\n"), encode("<think>\n\n</think>\n\n")
    assert starts_in_reasoning(params(), parsers, opened)
    assert not starts_in_reasoning(params(), parsers, closed)
    assert not starts_in_reasoning(params(), PassthroughParsers(), opened)
