"""A named call that the grammar wants as an array, as SGLang's schema does, through the core and in any pieces."""

from __future__ import annotations

import pytest
from backedge.parsers.base import ParserRequest
from backedge.parsers.passthrough import PassthroughParsers
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import chunks, encode, message, params, run

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
    ('[{"name": "f", "parameters": {"x": "a', "stop", ['{"x": "a"}']),
]


@pytest.mark.parametrize(("text", "finish_reason", "calls"), CASES)
@settings(max_examples=40, deadline=None, database=None)
@given(cuts=st.sets(st.integers(0, 60)))
def test_calls(text: str, finish_reason: str, calls: list[str], cuts: set[int]) -> None:
    end = "<|im_end|>" if finish_reason == "stop" else ""
    answer = message(
        run(REQUEST, chunks(encode(text + end), cuts, finish_reason), PassthroughParsers())
    )
    assert answer["tool_calls"] == [{"name": "f", "arguments": arguments} for arguments in calls]
    assert answer["content"] is None
    assert answer["finish_reason"] == ("length" if finish_reason == "length" else "tool_calls")
