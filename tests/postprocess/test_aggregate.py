"""The sum of a stream's deltas is the answer that `stream: false` gets."""

import pytest
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import (
    ChoiceDelta,
    Delta,
    FunctionDelta,
    TokenLogprob,
    ToolCallDelta,
)


def start(index, name, call_id):
    return ToolCallDelta(index, FunctionDelta("", name), call_id, "function")


def more(index, arguments):
    return ToolCallDelta(index, FunctionDelta(arguments))


A, B = (TokenLogprob(text, -1.0, list(text.encode()), []) for text in "ab")
CASES = [
    (
        "text of one kind is joined, and the last delta says how it ended",
        [
            ChoiceDelta(1, Delta("assistant", reasoning_content="th")),
            ChoiceDelta(1, Delta(reasoning_content="ought")),
            ChoiceDelta(1, Delta(content="ans")),
            ChoiceDelta(1, Delta(content="wer"), "stop", "END"),
        ],
        ChoiceDelta(1, Delta("assistant", "answer", "thought"), "stop", "END"),
    ),
    (
        "calls keep their order, ids and names",
        [
            ChoiceDelta(0, Delta("assistant", tool_calls=[start(0, "f", "a"), more(0, '{"x"')])),
            ChoiceDelta(0, Delta(tool_calls=[more(0, ": 1}"), start(1, "g", "b")])),
            ChoiceDelta(0, Delta(tool_calls=[more(1, "{}")]), "tool_calls"),
        ],
        ChoiceDelta(
            0,
            Delta(
                "assistant",
                tool_calls=[
                    ToolCallDelta(0, FunctionDelta('{"x": 1}', "f"), "a", "function"),
                    ToolCallDelta(1, FunctionDelta("{}", "g"), "b", "function"),
                ],
            ),
            "tool_calls",
        ),
    ),
    (
        "logprobs and token ids of all deltas, also of those without",
        [
            ChoiceDelta(0, Delta("assistant", "a"), logprobs=[A], token_ids=[1]),
            ChoiceDelta(0, Delta(content="")),
            ChoiceDelta(0, Delta(content="b"), "length", None, [B], [2, 3]),
        ],
        ChoiceDelta(0, Delta("assistant", "ab"), "length", None, [A, B], [1, 2, 3]),
    ),
    (
        "a finish alone",
        [ChoiceDelta(0, Delta("assistant"), "stop")],
        ChoiceDelta(0, Delta("assistant"), "stop"),
    ),
]


@pytest.mark.parametrize(
    ("deltas", "whole"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_the_sum(deltas, whole):
    assert aggregate_deltas(deltas) == whole
