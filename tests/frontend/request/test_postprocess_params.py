"""What the worker is told of a request."""

import pytest
from backedge.frontend.request.preprocessed_request import (
    build_parser_request,
    build_postprocess_params,
)

from tests.frontend.chat_requests import NAMED, TOOL, chat_request, preprocessed


def build(kwargs=None, **fields):
    request = chat_request(**fields)
    guided = preprocessed(fields)["sampling_options"].get("guided_decoding")
    parser = build_parser_request(request, guided, kwargs, include_reasoning=True)
    return build_postprocess_params("1", request, 3, parser)


@pytest.mark.parametrize(
    ("choice", "json_calls"), [("auto", False), ("required", True), (NAMED, True)]
)
def test_the_worker_is_told_the_syntax_of_forced_calls(choice, json_calls):
    params = build(tools=[TOOL], tool_choice=choice)
    assert params.parser.json_calls is json_calls
    assert (params.parser.tools, params.parser.tool_choice) == ([TOOL], choice)


# request, parameter, value
PARAMS = [
    ({}, "include_usage", True),
    ({"stream": True}, "include_usage", False),
    ({"stream": True, "stream_options": {"include_usage": True}}, "include_usage", True),
    ({"stream_options": {"continuous_usage_stats": True}}, "continuous_usage_stats", False),
    ({"logprobs": True, "top_logprobs": 3}, "logprobs", 3),
    ({"logprobs": True}, "logprobs", 0),
    ({"top_logprobs": 0}, "logprobs", None),
    ({"return_token_ids": True}, "return_token_ids", True),
    ({"nvext": {"extra_fields": ["completion_token_ids"]}}, "return_token_ids", True),
    ({"nvext": {"extra_fields": None}}, "return_token_ids", False),
    ({"stop": "a", "n": 2}, "stop", ["a"]),
    ({"nvext": {"extra_fields": ["malformed_calls"]}}, "reports_calls", True),
    ({"nvext": {"extra_fields": ["discarded_tokens"]}}, "reports_calls", True),
    ({"nvext": {"extra_fields": ["prompt_logprobs"]}}, "reports_calls", False),
]


@pytest.mark.parametrize(("fields", "name", "value"), PARAMS)
def test_options_of_the_answer(fields, name, value):
    params = build(**fields)
    assert getattr(params, name) == value
    assert (params.response_id, params.prompt_length) == ("chatcmpl-1", 3)


def test_the_arguments_of_the_engines_parser_override_the_requests():
    assert build(chat_template_args={"a": 1}).parser.chat_template_kwargs == {"a": 1}
    assert build({}, chat_template_args={"a": 1}).parser.chat_template_kwargs == {}


def test_calls_so_far_are_counted():
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [{"role": "assistant", "tool_calls": [call, call]}, {"role": "user", "content": "x"}]
    parser = build(messages=messages).parser
    assert (parser.history_tool_calls, parser.tool_choice) == (2, "none")
