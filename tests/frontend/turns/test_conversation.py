"""Equal conversations have equal digests, however a client writes them; others never."""

import json

import pytest
from backedge.frontend.turns.conversation import digest_conversation
from hypothesis import given
from hypothesis import strategies as st

from tests.frontend.chat_requests import TOOL, chat_request


def digest(*messages, scope=None, **fields):
    return digest_conversation(chat_request(messages=list(messages), **fields), scope)


def user(content):
    return {"role": "user", "content": content}


def call(arguments='{"a": 1}', **fields):
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "f", "arguments": arguments},
                **fields,
            }
        ],
    }


ANSWER = {"role": "assistant", "content": "x"}
EQUAL = [
    (user("hi"), user([{"type": "text", "text": "hi"}])),
    (user("hi, you"), user([{"type": "text", "text": "hi, "}, {"type": "text", "text": "you"}])),
    (call(), call('{ "a" : 1.0 }')),
    (call(), call({"a": 1})),
    (call('{"a": 1e300}'), call('{"a": 10.0E+299}')),
    (call('{"a": "é", "b": 2}'), call('{"b": 2, "a": "\\u00e9"}')),
    (call(), {**call(), "content": ""}),
    (call(), {**call(), "content": " \n"}),
    (call(), {**call(), "reasoning_content": "Hm."}),
    ({"role": "assistant", "content": "x"}, {"role": "assistant", "content": "\n\nx "}),
    (
        {"role": "assistant", "content": "x"},
        {"role": "assistant", "content": "x", "tool_calls": []},
    ),
]
DIFFERENT = [
    (user("hi"), user("hi ")),
    (user("hi"), {"role": "system", "content": "hi"}),
    (user("hi"), {**user("hi"), "name": "x"}),
    (user("hi"), user([{"type": "text", "text": "h"}, {"type": "image_url", "image_url": {}}])),
    (call(), call('{"a": 2}')),
    (call(), call('{"a": true}')),
    (call(), call('{"a": "1"}')),
    (call(), call("{}")),
    (call(), call('{"a": 1')),
    (call(), call(id="call_2")),
    (call('{"a": 1e999}'), call('{"a": null}')),
    (call(), {**call(), "content": "x"}),
    (
        {"role": "tool", "content": "x", "tool_call_id": "a"},
        {"role": "tool", "content": "x", "tool_call_id": "b"},
    ),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_the_same_written_differently_is_equal(one, other):
    assert digest(user("a"), one, user("b")) == digest(user("a"), other, user("b"))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_differs_has_another_digest_from_there_on(one, other):
    first, second = digest(user("a"), one, user("b")), digest(user("a"), other, user("b"))
    assert first[:2] == second[:2]
    assert not {*first[2:]} & {*second[2:]}


@pytest.mark.parametrize(
    "fields",
    [
        {"scope": "a"},
        {"model": "n"},
        {"tools": [TOOL]},
        {"chat_template": "x"},
        {"chat_template_kwargs": {"x": 1}},
        {"reasoning_effort": "low"},
    ],
)
def test_what_shapes_the_prompt_is_part_of_every_digest(fields):
    assert not {*digest(user("a"))} & {*digest(user("a"), **fields)}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=3), JSON), st.integers(0, 4))
def test_arguments_are_compared_as_values(arguments, indent):
    spelled = json.dumps(arguments, indent=indent, ensure_ascii=indent % 2 == 0)
    assert digest(call(spelled)) == digest(call(json.dumps(arguments, sort_keys=True)))


@given(st.lists(st.text(max_size=3), max_size=4), st.lists(st.text(max_size=3), max_size=4))
def test_messages_never_run_into_each_other(one, other):
    first, second = digest(*map(user, one)), digest(*map(user, other))
    assert (first == second) is (one == other)
