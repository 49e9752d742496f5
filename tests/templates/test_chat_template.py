"""Prompts: the same as transformers' for every transcript, with messages in vLLM's form."""

from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.templates import chat_template
from backedge.templates.chat_template import ChatTemplate, ModelPrompts
from backedge.templates.environment import LoadedTemplate
from transformers import AutoTokenizer

from tests.support import TINY_MODEL, TRANSCRIPTS

FILES = ModelPrompts(TINY_MODEL)
TRANSFORMERS = AutoTokenizer.from_pretrained(TINY_MODEL)
USER = {"role": "user", "content": "hi"}


@pytest.fixture(autouse=True)
def in_place(monkeypatch):
    """`test_rendering` has what processes add; here each template would start one."""
    monkeypatch.setattr(chat_template, "compile_template", LoadedTemplate)


def shown(source, messages=(USER,), tools=None, **variables):
    return ChatTemplate({"default": source}, {"bos_token": "<s>"}).render(
        list(messages), tools, **variables
    )


def call(arguments):
    return {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}


@pytest.mark.parametrize(
    "transcript", TRANSCRIPTS.values(), ids=lambda transcript: transcript["id"]
)
def test_the_prompt_is_the_one_of_transformers(transcript):
    variables = transcript.get("chat_template_kwargs", {})
    text = FILES.template.render(transcript["messages"], transcript.get("tools"), **variables)
    expected = TRANSFORMERS.apply_chat_template(
        transcript["messages"],
        tools=transcript.get("tools"),
        add_generation_prompt=True,
        return_dict=False,
        **variables,
    )
    assert FILES.encode(text) == expected


# what is special, template, text
SYNTAX = [
    ("blocks are trimmed", "{% if true %}\n  x\n  {% endif %}\n", "  x\n"),
    (
        "tojson leaves HTML and other scripts alone",
        "{{ {'a': '<b> é'} | tojson }}",
        '{"a": "<b> é"}',
    ),
    ("tojson takes an indent", "{{ {'a': 1} | tojson(indent=2) }}", '{\n  "a": 1\n}'),
    (
        "loop controls",
        "{% for n in [1, 2, 3] %}{% if n == 2 %}{% break %}{% endif %}{{ n }}{% endfor %}",
        "1",
    ),
    ("generation is a mark", "a{% generation %}{{ 'b' }}{% endgeneration %}c", "abc"),
    ("the date", "{{ strftime_now('%%') }}", "%"),
    ("special tokens", "{{ bos_token }}", "<s>"),
    ("no tools are none", "{{ tools is none }}", "True"),
    ("variables", "{{ enable_thinking }}{{ add_generation_prompt }}", "FalseTrue"),
]


@pytest.mark.parametrize(
    ("source", "text"), [case[1:] for case in SYNTAX], ids=[case[0] for case in SYNTAX]
)
def test_what_templates_may_use(source, text):
    assert shown(source, enable_thinking=False) == text


CONTENT = "{% for m in messages %}{{ m.content }}|{% endfor %}"
PARTS = (
    "{% for m in messages %}{% for part in m['content'] %}{{ part.text }};{% endfor %}|{% endfor %}"
)
LAST = "{{ messages[-1] | tojson }}"
TEXTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
# what is special, template, messages, text
MESSAGES = [
    ("parts become text", CONTENT, [{"role": "user", "content": TEXTS}], "a\nb|"),
    ("parts stay parts", PARTS, [{"role": "user", "content": TEXTS}], "a;b;|"),
    ("text becomes parts", PARTS, [USER], "hi;|"),
    ("a tool's are text", CONTENT + PARTS, [{"role": "tool", "content": TEXTS}], "a\nb|;;;|"),
    ("none is empty", CONTENT,
     [{"role": "assistant", "content": None, "tool_calls": [call("{}")]}], "|"),
    ("arguments are an object", "{{ messages[0].tool_calls[0].function.arguments.a }}",
     [{"role": "assistant", "tool_calls": [call('{"a": 1}')]}], "1"),
    ("arguments that were cut", "{{ messages[0].tool_calls[0].function.arguments }}",
     [{"role": "assistant", "tool_calls": [call('{"a')]}], '{"a'),
    ("reasoning has both names", "{{ messages[0].reasoning }}{{ messages[0].reasoning_content }}",
     [{"role": "assistant", "content": "x", "reasoning_content": "r"}], "rr"),
    ("gpt-oss reads reasoning as thinking", "{{ messages[0].thinking }}",
     [{"role": "assistant", "content": "x", "reasoning_content": "r"}], "r"),
    ("gpt-oss refuses thinking beside content and calls", "{{ messages[0].thinking is defined }}",
     [{"role": "assistant", "content": "x", "reasoning_content": "r", "tool_calls": [call("{}")]}],
     "False"),
    ("developer is system",
     "{{ messages[0].role }}{{ messages[0].content }}{{ messages | length }}",
     [USER, {"role": "developer", "content": "d"}, {"role": "system", "content": "s"}],
     "systemd\n\ns2"),
    ("developer where a template knows it", "{{ messages[0].role == 'developer' }}",
     [{"role": "developer", "content": "d"}], "True"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "messages", "text"),
    [case[1:] for case in MESSAGES],
    ids=[case[0] for case in MESSAGES],
)
def test_messages_are_shown_in_vllms_form(source, messages, text):
    assert shown(source, messages) == text


def test_a_tool_is_shown_in_vllms_form():
    tool = {
        "function": {"parameters": {"type": "object"}, "name": "f", "extra": 1},
        "type": "function",
    }
    expected = (
        '{"type": "function", "function": '
        '{"name": "f", "description": null, "parameters": {"type": "object"}}}'
    )
    assert shown("{{ tools[0] | tojson }}", tools=[tool]) == expected


def test_the_last_message_can_go_on():
    messages = [USER, {"role": "assistant", "content": "so far"}]
    source = (
        "{% for m in messages %}<{{ m.content | trim }}>{% endfor %}{{ add_generation_prompt }}"
    )
    assert shown(source, messages, continue_final_message=True) == "<hi><so far"


def test_tool_use_is_for_requests_with_tools():
    template = ChatTemplate({"default": "plain", "tool_use": "tools"}, {})
    assert [template.render([USER]), template.render([USER], [{"function": {"name": "f"}}])] == [
        "plain",
        "tools",
    ]


NO_PARTS: list[Any] = [5, None, [], {}, {"type": []}]
# template, messages, field, part of the message
REFUSED = [
    ("{{ raise_exception('roles must alternate') }}", [USER], "messages", "roles must alternate"),
    ("{{ 1 / 0 }}", [USER], "messages", "division by zero"),
    ("{{ messages.__class__.__mro__ }}", [USER], "messages", "unsafe"),
    (
        CONTENT,
        [{"role": "user", "content": [{"type": "image_url"}]}],
        "messages[0].content[0].type",
        "vLLM",
    ),
    *[
        (CONTENT, [{"role": "user", "content": ["Hi", part]}], "messages[0].content[1]", "object")
        for part in NO_PARTS
    ],
    (
        CONTENT,
        [{"role": "user", "content": [{"type": "text", "text": 5}]}],
        "messages[0].content[0].text",
        "a string, not 5",
    ),
]


@pytest.mark.parametrize(("source", "messages", "field", "part"), REFUSED)
def test_what_cannot_be_rendered_is_refused(source, messages, field, part):
    with pytest.raises(RequestError, match=part) as caught:
        shown(source, messages)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("{% for c in message.content %}{% endfor %}", True),
        ("{% for c in message['content'] | list %}{% endfor %}", True),
        ("{% macro m(content) %}{% for c in content %}{% endfor %}{% endmacro %}", True),
        ("{% for m in messages %}{{ m.content }}{% endfor %}", False),
    ],
)
def test_a_loop_over_the_content_wants_parts(source, parts):
    assert LoadedTemplate(source).reads_parts is parts
