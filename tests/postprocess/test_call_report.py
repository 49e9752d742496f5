"""The end of a choice reports its malformed calls to a client that asks."""

from __future__ import annotations

import pytest
from backedge.parsers.base import ParserNames
from backedge.postprocess import Postprocessor
from backedge.postprocess.messages import ChoiceDelta, MalformedCall
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.postprocess.test_call_hold import GOOD, call, declare
from tests.support import chunks, encode, feed, params, tiny_detokenizers, tiny_parsers

PARSERS = tiny_parsers(ParserNames("hermes"))
REQUEST = replace(declare(), malformed_calls="open")
BAD = call('{"city": , "days": 1}')
# Output, how it ends, and its open calls.
OUTPUTS = {
    "text": ("No call.", "stop", []),
    "good calls": (f"{GOOD}\n{GOOD}", "stop", []),
    "a value is missing": (BAD, "stop", [(0, "invalid_json")]),
    "so in the second call": (f"{GOOD}\n{BAD}\n{GOOD}", "stop", [(1, "invalid_json")]),
    "the model stops within": (
        f"{BAD}\n{GOOD[:-22]}",
        "stop",
        [(0, "invalid_json"), (1, "unfinished")],
    ),
    "max_tokens ends within": (f"{BAD}\n{GOOD[:-22]}", "length", [(0, "invalid_json")]),
}


def finish(
    output: str, reason: str, cuts: list[int], *, stream: bool, reports: bool = True
) -> ChoiceDelta:
    asked = params(parser=REQUEST, stream=stream, reports_calls=reports)
    post = Postprocessor(asked, tiny_detokenizers(), PARSERS)
    ended = "<|im_end|>" if reason == "stop" else ""
    return feed(post, chunks(encode(output + ended), cuts, reason))[-1]


@pytest.mark.parametrize("name", OUTPUTS)
@given(cuts=st.lists(st.integers(1, 60), max_size=20), stream=st.booleans())
def test_the_end_names_the_open_calls(name: str, cuts: list[int], stream: bool) -> None:
    output, reason, calls = OUTPUTS[name]
    last = finish(output, reason, cuts, stream=stream)
    assert last.malformed_calls == [MalformedCall(*each) for each in calls]
    assert last.discarded_tokens == 0


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_does_not_ask_gets_no_report(stream: bool) -> None:
    last = finish(BAD, "stop", [], stream=stream, reports=False)
    assert (last.malformed_calls, last.discarded_tokens) == (None, None)


def test_another_worker_that_finds_the_end_reports_them() -> None:
    asked = params(parser=REQUEST, stop_token_ids=encode("<|im_end|>"), reports_calls=True)
    post = Postprocessor(asked, tiny_detokenizers(), PARSERS)
    [last] = post.resume(encode(BAD + "<|im_end|>"))
    assert last.malformed_calls == [MalformedCall(0, "invalid_json")]
