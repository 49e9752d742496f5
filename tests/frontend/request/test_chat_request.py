"""A request's JSON with types: what is read, what passes, and which field an error names."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.frontend.request.chat_request import (
    LONGEST,
    ChatRequest,
    decode_chat_request,
    write_reasoning_as_text,
)
from backedge.guided.guided_request import NamedToolChoice
from hypothesis import given
from hypothesis import strategies as st

from tests.frontend.chat_requests import NAMED, PARAMETERS, TOOL, chat_request, raw_request

# fields, what is read of them
READ = [
    ({}, lambda request: request.tools, None),
    ({"tools": None, "nvext": None, "stop": None}, lambda request: request.stop_strings, []),
    ({"tools": [TOOL]}, lambda request: request.tools[0].function.parameters, PARAMETERS),
    ({"tool_choice": "auto"}, lambda request: request.named_function, None),
    ({"tool_choice": NAMED}, lambda request: request.named_function, "f"),
    ({"stop": "a"}, lambda request: request.stop_strings, ["a"]),
    ({"stop": ["a", "b"]}, lambda request: request.stop_strings, ["a", "b"]),
    ({"max_tokens": 5}, lambda request: request.max_output_tokens, 5),
    (
        {"max_tokens": 5, "max_completion_tokens": 6},
        lambda request: request.max_output_tokens,
        6,
    ),
    ({"top_logprobs": 3}, lambda request: request.top_logprobs_count, None),
    ({"logprobs": True}, lambda request: request.top_logprobs_count, 0),
    ({"logprobs": True, "top_logprobs": 3}, lambda request: request.top_logprobs_count, 3),
    ({"nvext": {"max_thinking_tokens": 4}}, lambda request: request.nvext.max_thinking_tokens, 4),
    ({"temperature": 1}, lambda request: request.temperature, 1.0),
    ({"of_tomorrow": {"x": [1]}}, lambda request: request.raw["of_tomorrow"], {"x": [1]}),
]


@pytest.mark.parametrize(("fields", "read", "value"), READ)
def test_what_is_read(fields, read, value):
    assert read(chat_request(**fields)) == value


# field, request
WRONG_TYPES = [
    ("model", {"model": None}),
    ("messages", {"messages": "hi"}),
    ("messages[1].role", {"messages": [{"role": "user"}, {"content": "x"}]}),
    ("messages[0].tool_calls", {"messages": [{"role": "assistant", "tool_calls": 5}]}),
    ("tools", {"tools": {}}),
    ("tools[1].function", {"tools": [TOOL, {"type": "function"}]}),
    ("tools[0].function.name", {"tools": [{"type": "function", "function": {}}]}),
    ("tools[0].function.parameters", {"tools": [{"function": {"name": "f", "parameters": 5}}]}),
    ("tool_choice", {"tool_choice": 5}),
    ("tool_choice.function.name", {"tool_choice": {"function": {"name": 5}}}),
    ("stop", {"stop": 5}),
    ("stop[1]", {"stop": ["a", {}]}),
    ("stop_token_ids[0]", {"stop_token_ids": ["a"]}),
    ("stream_options.include_usage", {"stream_options": {"include_usage": "yes"}}),
    ("response_format.json_schema.schema", {"response_format": {"json_schema": {"name": "n"}}}),
    ("nvext.extra_fields[0]", {"nvext": {"extra_fields": [1]}}),
    ("chat_template_kwargs", {"chat_template_kwargs": "{}"}),
    ("temperature", {"temperature": "hot"}),
    ("n", {"n": 1.5}),
]


@pytest.mark.parametrize(("field", "fields"), WRONG_TYPES, ids=[field for field, _ in WRONG_TYPES])
def test_a_wrong_type_names_the_field(field, fields):
    with pytest.raises(RequestError) as caught:
        chat_request(**fields)
    assert caught.value.field == field
    assert f"`{field}`" in str(caught.value)


def test_the_message_has_the_value_and_the_type():
    with pytest.raises(RequestError) as caught:
        chat_request(stop=["a", True])
    assert str(caught.value) == "`stop[1]` must be an integer or a string, not True."
    with pytest.raises(RequestError) as caught:
        decode_chat_request({"messages": []})
    assert str(caught.value) == "`model` is required."


def test_a_field_is_set_in_both_forms():
    request = chat_request()
    request.set_field("min_tokens", 3, "metadata.x")
    assert (request.min_tokens, request.raw["min_tokens"]) == (3, 3)
    assert request.written_name("min_tokens") == "metadata.x"
    assert request.written_name("max_tokens") == "max_tokens"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.text(), JSON, max_size=3)
CONTENT = st.none() | st.text() | st.lists(OBJECT, max_size=2)
CALL = st.fixed_dictionaries(
    {"function": st.fixed_dictionaries({"name": st.text(), "arguments": st.text() | OBJECT})},
    optional={"id": st.text()},
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"])},
    optional={
        "content": CONTENT,
        "reasoning_content": st.none() | st.text() | st.lists(st.text(), max_size=2),
        "tool_calls": st.lists(CALL, max_size=2),
    },
)
FUNCTION = st.fixed_dictionaries({"name": st.text()}, optional={"parameters": OBJECT})
NAMED_CHOICE = st.fixed_dictionaries(
    {"type": st.just("function"), "function": st.fixed_dictionaries({"name": st.text()})}
)
# Of Dynamo's shape: each field has its type or is null, and there may be fields of other names.
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "tools": st.lists(st.fixed_dictionaries({"function": FUNCTION}), max_size=2),
    "tool_choice": st.sampled_from(["none", "auto", "required"]) | NAMED_CHOICE,
    "stop": st.text() | st.lists(st.text() | st.integers(), max_size=2),
    "stop_token_ids": st.lists(st.integers(), max_size=2),
    "stream": st.booleans(),
    "stream_options": st.fixed_dictionaries({}, optional={"include_usage": st.booleans()}),
    "logprobs": st.booleans(),
    "top_logprobs": st.integers(),
    "n": st.integers(),
    "seed": st.integers(),
    "temperature": st.floats(allow_nan=False) | st.integers(-3, 3),
    "top_k": st.integers(),
    "max_tokens": st.integers(),
    "chat_template_kwargs": OBJECT,
    "response_format": st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "json_object", "json_schema", "structural_tag"])}
    ),
    "nvext": st.fixed_dictionaries({}, optional={"extra_fields": st.lists(st.text())}),
    "metadata": JSON,
    "routing": JSON,
    "guided_json": JSON,
    "of_tomorrow": JSON,
}
REQUEST = st.fixed_dictionaries(
    {"model": st.text(), "messages": st.lists(MESSAGE, max_size=3)},
    optional={name: st.none() | strategy for name, strategy in FIELDS.items()},
)


@given(REQUEST)
def test_any_request_of_dynamos_shape_is_read_and_kept(raw):
    before = copy.deepcopy(raw)
    request = decode_chat_request(raw)
    assert request.raw is raw
    assert raw == before
    for name in FIELDS.keys() & raw.keys() - {"of_tomorrow"}:
        assert (getattr(request, name) is None) is (raw[name] is None)
    assert [message.content for message in request.messages] == [
        message.get("content") for message in raw["messages"]
    ]


@given(REQUEST)
def test_reasoning_in_segments_becomes_text_and_nothing_else_changes(raw):
    request = decode_chat_request(copy.deepcopy(raw))
    write_reasoning_as_text(request)
    for typed, message, before in zip(
        request.messages, request.raw["messages"], raw["messages"], strict=True
    ):
        reasoning = before.get("reasoning_content")
        if isinstance(reasoning, list):
            before["reasoning_content"] = "\n".join(filter(None, reasoning))
        assert typed.reasoning_content == message.get("reasoning_content")
    assert request.raw == raw


class Nothing:
    """No JSON, so no field takes it but those that pass unread."""


UNREAD = {"guided_json", "metadata", "routing", "of_tomorrow"}


@given(REQUEST, st.sampled_from(sorted({"model", "messages", *FIELDS} - UNREAD)))
def test_a_wrong_value_names_its_field(raw, name):
    with pytest.raises(RequestError) as caught:
        decode_chat_request({**raw, name: Nothing()})
    assert caught.value.field == name


@pytest.mark.parametrize("name", LONGEST)
def test_more_entries_than_are_accepted_are_not_looked_at(name: str) -> None:
    field, unit, limit = LONGEST[name]
    wrong: Any = [object()] * (limit + 1)
    if name.startswith("chat_template"):
        wrong = dict(enumerate(wrong))  # its keys are no strings, either
    with pytest.raises(RequestError, match=rf"{limit + 1:,} {unit}; at most") as refused:
        decode_chat_request({**raw_request(), name: wrong})
    assert refused.value.field == field


def test_raw_is_no_field_of_the_request():
    request = chat_request(raw=5)
    assert request.raw == raw_request(raw=5)
    assert "raw" not in ChatRequest.__struct_fields__
    assert isinstance(chat_request(tool_choice=NAMED).tool_choice, NamedToolChoice)
