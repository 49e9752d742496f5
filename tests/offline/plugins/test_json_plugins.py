"""An answer ends with its first JSON value, however its tokens come."""

import pytest
from backedge.offline.completion import Completion
from backedge.offline.plugins import JsonStop
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.offline.batches import replay_engine, request
from tests.offline.test_completion import build
from tests.support import TRANSCRIPTS, cut, encode

# output, text
ANSWERS = [
    ('{"a": "}"} and more', '{"a": "}"}'),
    ('Sure: [1, {"b": "\\"]"}] {"c": 1}', 'Sure: [1, {"b": "\\"]"}]'),
    ('{"a": {"b": []}}}', '{"a": {"b": []}}'),
    ('{"open": 1', '{"open": 1'),
    ('a [b) c] then {"a": 1} end', 'a [b) c] then {"a": 1}'),
    ('{"a" 1} [1 2] {} end', '{"a" 1} [1 2] {}'),
    ('[see {"a": [-1.5e3, null]} end', '[see {"a": [-1.5e3, null]}'),
    ("{nothing}", "{nothing}"),
    ("no value at all", "no value at all"),
]


@pytest.mark.parametrize(("output", "text"), ANSWERS)
@settings(max_examples=15)
@given(cuts=st.sets(st.integers(1, 30)))
def test_the_answer_ends_with_the_value(output, text, cuts):
    completion = Completion(0, build(), [JsonStop().watch()])
    for piece in cut(encode(output), cuts):
        completion.feed(piece)
    completion.feed([], ended="length")
    result = completion.result()
    complete = text.endswith(("}", "]")) and text != "{nothing}"
    assert result.text == text
    assert result.stop_reason == ("json_stop" if complete else None)
    assert result.finish_reason == ("stop" if complete else "length")


def test_in_a_batch():
    with replay_engine([JsonStop()]) as engine:
        [result] = engine.generate_text_batch([request(TRANSCRIPTS["json_object"])])
    assert result.text == '{"name": "Alice", "age": 31}'
    assert result.stop_reason == "json_stop"
