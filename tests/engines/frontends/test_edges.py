"""All edges make the same prompt of a conversation: that of the engine's own server."""

import asyncio
import copy
import gc
import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.frontend.prompt_queue import PromptQueue
from backedge.postprocess.messages import KEY, PostprocessParams, read
from backedge.templates import rendering
from backedge.tokenization.tokenizer_selection import (
    TokenizerFiles,
    TokenizerSelection,
    select_tokenizer,
)
from dynamo.llm.exceptions import InvalidArgument
from sglang.srt.function_call.utils import normalize_json_schema_types
from sglang.srt.utils.hf_transformers_utils import get_tokenizer as sglang_tokenizer

from tests.engines.frontends.all_edges import ALL, CHOICES, ENGINES, card, load, prepared
from tests.frontend.doubles import Card
from tests.support import TINY_MODEL, encode

DOCS = Path(__file__).parent.parent.parent.parent / "docs" / "tokenizers.md"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "weather", "description": "Of a city.", "parameters": PARAMETERS},
    },
    {"type": "function", "function": {"name": "time", "parameters": PARAMETERS}},
]
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Rome"}'},
}
USER = {"role": "user", "content": "What is the weather in Rome? 世界 😀"}
CONVERSATIONS: dict[str, dict[str, Any]] = {
    "one question": {"messages": [USER]},
    "without thinking": {"messages": [USER], "chat_template_kwargs": {"enable_thinking": False}},
    "system prompt, several turns": {
        "messages": [
            {"role": "system", "content": "Answer briefly."},
            USER,
            {"role": "assistant", "content": "Sunny."},
            {"role": "user", "content": "And in Oslo?"},
        ]
    },
    "tools": {"messages": [USER], "tools": TOOLS, "tool_choice": "auto"},
    "a call and its result": {
        "messages": [
            USER,
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "22 degrees"},
        ],
        "tools": TOOLS,
    },
    "a call with a long integer": {
        "messages": [
            USER,
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "weather", "arguments": f'{{"city": {10**30}}}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "22 degrees"},
        ],
        "tools": TOOLS,
    },
}
# Templates that would take the process, and what is said of them.
HOSTILE = [
    (
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        r"stopped after 0\.5 s",
    ),
    ("{{ 'x' * (10 ** 10 * messages | length) }}", "the chat template makes|stopped"),
    ("{{ 'x' | center(99999999999 * (messages | length)) }}", "the chat template makes|stopped"),
    (
        "{% for m in messages * 9999 %}{{ m.content * 9999 }}{% endfor %}",
        "the chat template makes|stopped",
    ),
]


def of_engines_server(engine, conversation, monkeypatch=None):
    """Return the token ids of the engine's own server: its tokenizer, its types for tools."""
    if engine == "vllm":
        from vllm.entrypoints.openai.chat_completion.protocol import (
            ChatCompletionToolsParam as Tool,
        )
        from vllm.tokenizers import get_tokenizer

        tokenizer = get_tokenizer(str(TINY_MODEL))
    else:
        from sglang.srt.entrypoints.openai.protocol import Tool

        tokenizer = sglang_tokenizer(str(TINY_MODEL))
    messages = copy.deepcopy(conversation["messages"])
    for message in messages:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    tools = [Tool.model_validate(tool).model_dump() for tool in conversation.get("tools", ())]
    text = tokenizer.apply_chat_template(
        messages,
        tools=tools or None,
        tokenize=False,
        add_generation_prompt=True,
        **conversation.get("chat_template_kwargs", {}),
    )
    return tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("backend", CHOICES)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_prompt_is_that_of_the_engines_own_server(models, loop, engine, backend, conversation):
    asked = CONVERSATIONS[conversation]
    made = prepared(loop, models[engine, backend], asked)
    assert made.preprocessed["token_ids"] == of_engines_server(engine, asked)
    params = read(PostprocessParams, made.preprocessed["extra_args"][KEY])
    assert params is not None
    assert params.prompt_length == len(made.preprocessed["token_ids"])


def answered_with(reasoning: object) -> dict[str, Any]:
    assistant = {"role": "assistant", "reasoning_content": reasoning, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "22 degrees"}
    return {"messages": [USER, assistant, result], "tools": TOOLS}


# What Dynamo makes of the reasoning in /v1/messages and /v1/responses: a list, with one part in
# front of each call and one behind the last. Each has the same prompt as the text beside it.
SEGMENTS = [(["hm", ""], "hm"), (["h", "m"], "h\nm"), (["", "m"], "m"), (["", ""], ""), ([], "")]


@pytest.mark.parametrize(("segments", "text"), SEGMENTS)
@pytest.mark.parametrize("backend", CHOICES)
@pytest.mark.parametrize("engine", ENGINES)
def test_reasoning_in_segments_is_their_text(models, loop, engine, backend, segments, text):
    prompts = [
        prepared(loop, models[engine, backend], answered_with(each)).preprocessed["token_ids"]
        for each in (segments, text)
    ]
    assert prompts[0] == prompts[1]


# What Dynamo makes of `reasoning: {"effort": "none"}` in /v1/responses.
NO_EFFORT = {
    "reasoning_effort": "none",
    "chat_template_args": {
        "enable_thinking": False,
        "thinking_mode": "disabled",
        "reasoning_effort": "none",
        "thinking": False,
    },
}


@pytest.mark.parametrize("backend", CHOICES)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_effort_of_none_switches_thinking_off(models, loop, engine, backend):
    asked: dict[str, Any] = {"messages": [USER], **NO_EFFORT}
    made = prepared(loop, models[engine, backend], asked).preprocessed
    assert made["token_ids"] == of_engines_server(engine, CONVERSATIONS["without thinking"])


PYTHON_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {"type": "dict", "properties": {"days": {"type": "float"}}},
        },
    }
]


@pytest.mark.parametrize("backend", CHOICES)
@pytest.mark.parametrize("engine", ENGINES)
def test_tools_with_other_languages_type_names(models, loop, engine, backend):
    """The prompt is that of the engine's own server; grammars get JSON Schema's own words."""
    asked: dict[str, Any] = {"messages": [USER], "tools": PYTHON_TOOLS}
    shown = copy.deepcopy(asked)
    if engine == "sglang":
        normalize_json_schema_types(shown["tools"][0]["function"]["parameters"])
    made = prepared(loop, models[engine, backend], asked).preprocessed
    assert made["token_ids"] == of_engines_server(engine, shown)
    forced = prepared(loop, models[engine, backend], {**asked, "tool_choice": "required"})
    grammar = str(forced.preprocessed["sampling_options"]["guided_decoding"])
    assert "'dict'" not in grammar
    assert '"dict"' not in grammar
    assert "object" in grammar


@pytest.mark.parametrize("stop", ["gamma", ["x"], ["x", "gamma"]])
@pytest.mark.parametrize("backend", CHOICES)
def test_what_else_is_routed_is_the_same(models, loop, backend, stop):
    """Stop conditions, sampling and guided decoding do not depend on the tokenizer."""
    asked = {
        **CONVERSATIONS["one question"],
        "temperature": 0.5,
        "max_tokens": 7,
        "stop": stop,
        "seed": 3,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": PARAMETERS},
        },
    }
    request = prepared(loop, models["vllm", backend], asked)
    assert request.params.stop == ([stop] if isinstance(stop, str) else stop)
    made = request.preprocessed
    expected = prepared(loop, models["vllm", "huggingface"], asked).preprocessed
    for field in ("stop_conditions", "eos_token_ids"):
        assert made[field] == expected[field]
    sampling = {
        name: value for name, value in made["sampling_options"].items() if value is not None
    }
    assert sampling == {
        name: value for name, value in expected["sampling_options"].items() if value is not None
    }


@pytest.mark.parametrize(("source", "text"), HOSTILE, ids=[source for source, _ in HOSTILE])
@pytest.mark.parametrize("backend", CHOICES)
def test_a_hostile_template_is_refused_and_holds_up_nobody(
    monkeypatch, tmp_path, flags, backend, source, text
):
    monkeypatch.setattr(rendering, "TEMPLATE_S", 0.5)
    path = tmp_path / "hostile.jinja"
    path.write_text(source, encoding="utf-8")
    monkeypatch.setattr(flags, "chat_template", str(path))
    delays = []

    async def watch():
        while True:
            asked = time.monotonic()
            await asyncio.sleep(0.01)
            delays.append(time.monotonic() - asked)

    async def run():
        model = await load(backend, flags, PromptQueue(threads=1), card("vllm"))
        watching = asyncio.create_task(watch())
        with pytest.raises(InvalidArgument, match=f"messages.*(?:{text})"):
            async with model.prepare(
                {"model": "tiny", **copy.deepcopy(CONVERSATIONS["one question"])}
            ):
                pass
        watching.cancel()

    asyncio.run(run())
    if source == HOSTILE[0][0]:
        assert len(delays) > 10, delays  # all that time the loop went on


@pytest.mark.parametrize("field", ["chat_template_kwargs", "chat_template_args"])
@pytest.mark.parametrize("backend", CHOICES)
def test_documents_reach_the_template(monkeypatch, tmp_path, flags, loop, backend, field):
    path = tmp_path / "documents.jinja"
    path.write_text("{% for d in documents %}{{ d.text }}{% endfor %}{{ other }}", encoding="utf-8")
    monkeypatch.setattr(flags, "chat_template", str(path))
    model = loop.run_until_complete(load(backend, flags, PromptQueue(threads=1), card("vllm")))
    arguments = {"documents": [{"text": "one "}, {"text": "two "}], "other": "three", "unread": 1}
    made = prepared(loop, model, {"messages": [USER], field: arguments})
    assert made.preprocessed["token_ids"] == encode("one two three")


@pytest.mark.parametrize("backend", ["huggingface", *ENGINES])
def test_a_model_without_a_template_is_not_served(monkeypatch, tmp_path, flags, loop, backend):
    """The factory answers its requests with this text; no request reaches a worker."""
    bare, ignored = tmp_path / "model", shutil.ignore_patterns("*.jinja", "*.safetensors")
    shutil.copytree(TINY_MODEL, bare, ignore=ignored)
    plain = Card()
    monkeypatch.setattr(plain, "local_dir", lambda: str(bare))
    with pytest.raises(SetupError, match="no chat template; name a Jinja file with --chat-t"):
        loop.run_until_complete(load(backend, flags, PromptQueue(threads=1), plain))
    monkeypatch.setattr(flags, "chat_template", str(TINY_MODEL / "chat_template.jinja"))
    loop.run_until_complete(load(backend, flags, PromptQueue(threads=1), plain))


@pytest.mark.parametrize("backend", ["huggingface", *ENGINES])
def test_a_model_that_comes_back_has_its_new_files(monkeypatch, tmp_path, flags, loop, backend):
    folder, plain = tmp_path / "model", Card()
    shutil.copytree(TINY_MODEL, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    monkeypatch.setattr(plain, "local_dir", lambda: str(folder))
    for text in ("first", "second"):
        (folder / "chat_template.jinja").write_text(text)
        model = loop.run_until_complete(load(backend, flags, PromptQueue(threads=1), plain))
        made = prepared(loop, model, {"messages": [USER]})
        assert made.preprocessed["token_ids"] == encode(text)
        del model, made
        gc.collect()


def table(models, loop):
    heads = [f"Model of {engine}, tokens" for engine in ENGINES]
    lines = [f"| {' | '.join(['Conversation', *heads, 'Other ids with'])} |"]
    lines.append("|---" * (2 + len(ENGINES)) + "|")
    for name, asked in CONVERSATIONS.items():
        cells, others = [name], []
        for engine in ENGINES:
            own = of_engines_server(engine, asked)
            cells.append(str(len(own)))
            for backend in CHOICES:
                token_ids = prepared(loop, models[engine, backend], asked).preprocessed["token_ids"]
                others += [f"`{backend}`, {engine}"] if token_ids != own else []
        lines.append(f"| {' | '.join([*cells, '; '.join(others) or '-'])} |")
    return "\n".join(lines)


@pytest.mark.skipif(CHOICES != ALL, reason="an engine of the table has no folder here")
def test_the_docs_show_it(models, loop):
    shown = re.search(
        r"<!-- prompts -->\n(.*?)\n<!-- end -->", DOCS.read_text(encoding="utf-8"), re.DOTALL
    )
    made = table(models, loop)
    assert shown, "docs/tokenizers.md has no table of prompts"
    assert shown[1] == made, f"docs/tokenizers.md is to show:\n{made}"


def test_an_edge_is_chosen_for_each_model():
    assert [
        select_tokenizer(choice, TokenizerSelection(), None, TokenizerFiles())[0]
        for choice in CHOICES.values()
    ] == list(CHOICES)
