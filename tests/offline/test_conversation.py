"""Conversations to prompts: thinking is off where the template knows it."""

import logging

import pytest
from backedge.base.errors import RequestError
from backedge.offline import GenerationOptions, TextGenerationRequest
from backedge.offline.model_text import check_messages, render_conversation

MESSAGES = [{"role": "user", "content": "Hi"}]
PARSED = {"message": True, "reasoning_parser": "qwen3"}

# options, variables that the template gets
THINKING = [
    ({}, {"enable_thinking": False}),
    ({"chat_template_kwargs": {"x": 1}}, {"x": 1, "enable_thinking": False}),
    ({"chat_template_kwargs": {"enable_thinking": True}}, {"enable_thinking": True}),
    (PARSED, {}),
    ({**PARSED, "chat_template_kwargs": {"enable_thinking": False}}, {"enable_thinking": False}),
]


@pytest.mark.parametrize(("options", "variables"), THINKING)
def test_thinking_is_off_unless_asked_for(options, variables):
    seen: list[dict[str, object]] = []

    def render(messages, tools, **kwargs):
        seen.append(kwargs)
        return ""

    request = TextGenerationRequest(messages=MESSAGES)
    render_conversation(render, request, GenerationOptions(**options))
    assert seen == [variables]


def test_a_template_that_refuses_the_variable_is_rendered_without(caplog):
    def render(messages, tools, **kwargs):
        if "enable_thinking" in kwargs:
            raise RequestError("messages", "no enable_thinking")
        return "prompt"

    caplog.set_level(logging.INFO)
    request = TextGenerationRequest(messages=MESSAGES)
    assert render_conversation(render, request, GenerationOptions()) == "prompt"
    assert "rejects enable_thinking=False" in caplog.text


def test_a_template_that_refuses_the_messages_refuses_them():
    def render(messages, tools, **kwargs):
        raise RequestError("messages", "users only")

    with pytest.raises(RequestError, match="users only"):
        render_conversation(render, TextGenerationRequest(messages=MESSAGES), GenerationOptions())


# messages, field of the error
BAD_MESSAGES = [
    ([], "messages"),
    ("Hi", "messages"),
    ([1], "messages[0]"),
    ([{}], "messages[0].role"),
    ([{"role": "robot", "content": "x"}], "messages[0].role"),
    ([{"role": "user"}], "messages[0].content"),
    ([{"role": "user", "content": 5}], "messages[0].content"),
    ([*MESSAGES, {"role": "assistant", "tool_calls": {}}], "messages[1].tool_calls"),
    ([*MESSAGES, {"role": "assistant", "tool_calls": [{}]}], "messages[1].tool_calls[0]"),
]


@pytest.mark.parametrize(("messages", "field"), BAD_MESSAGES)
def test_what_is_no_conversation(messages, field):
    with pytest.raises(RequestError) as caught:
        check_messages(messages)
    assert caught.value.field == field
