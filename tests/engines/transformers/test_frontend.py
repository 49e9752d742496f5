"""The frontend without an engine: the fields for the engine, the variables of the template."""

import asyncio

import pytest
from backedge.engines.transformers.frontend import HuggingFacePrompts
from backedge.frontend.prompt_preprocessor import PromptPreprocessor
from backedge.frontend.prompt_queue import PromptQueue
from backedge.guided.call_policy import CallPolicy

from tests.frontend.chat_requests import FILES, NAMED, TOOL, chat_request


def preprocess(fields, *, reasons=True, runtime_config=None, **options):
    prompts = HuggingFacePrompts(
        FILES.prompt_token_ids,
        runtime_config or {},
        CallPolicy(enabled=False),
        has_reasoning_parser=reasons,
        **options,
    )

    async def prepare():
        preprocessor = PromptPreprocessor(prompts, FILES, PromptQueue(threads=1), None)
        async with preprocessor(chat_request(**fields)) as prepared:
            return prepared.preprocessed

    return asyncio.run(prepare())


OFF = {"enable_thinking": False}
# request, what the engine is told of reasoning
HINTS = [
    ({}, {"reasoning_parser_kwargs": {"chat_template_kwargs": {}}}),
    (
        {"chat_template_args": OFF},
        {"reasoning_ended": True, "reasoning_parser_kwargs": {"chat_template_kwargs": OFF}},
    ),
    (
        {"include_reasoning": False},
        {"reasoning_ended": True, "reasoning_parser_kwargs": {"chat_template_kwargs": {}}},
    ),
]


@pytest.mark.parametrize(("fields", "hints"), HINTS)
def test_the_engine_is_told_of_reasoning(fields, hints):
    made = preprocess(fields)
    assert made["extra_args"] == hints
    assert {name: made[name] for name in hints} == hints
    assert "extra_args" not in preprocess(fields, reasons=False)


def test_the_deployments_thinking_mode_is_the_default():
    default = {"runtime_data": {"default_thinking_mode": "disabled"}}
    quiet = preprocess({"chat_template_args": OFF})["token_ids"]
    assert preprocess({}, runtime_config=default)["token_ids"] == quiet
    assert (
        preprocess({"chat_template_args": {"enable_thinking": True}}, runtime_config=default)[
            "token_ids"
        ]
        != quiet
    )


def test_tools_that_must_not_be_called_are_not_shown():
    assert (
        preprocess({"tools": [TOOL], "tool_choice": "none"})["token_ids"]
        == preprocess({})["token_ids"]
    )


def test_engines_that_show_one_tool_show_the_demanded_one():
    other = {"type": "function", "function": {"name": "g"}}
    fields = {"tools": [other, TOOL], "tool_choice": NAMED}
    shown = preprocess(fields, shows_only_named=True)["token_ids"]
    assert shown == preprocess({"tools": [TOOL], "tool_choice": NAMED})["token_ids"]
    assert shown != preprocess(fields)["token_ids"]


def test_a_final_message_is_continued():
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Well"}]
    fields = {"messages": messages, "add_generation_prompt": False, "continue_final_message": True}
    token_ids = preprocess(fields)["token_ids"]
    assert FILES.tokenizer.decode(token_ids, skip_special_tokens=False).endswith("Well")
