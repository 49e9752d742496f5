"""Whatever JSON a request is, every edge prepares it or refuses it; nothing else comes out."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from typing import Any

import pytest
from backedge.frontend.chat_model import ChatModel
from backedge.tokenization.tokenizer_selection import Backend
from dynamo.llm.exceptions import InvalidArgument
from hypothesis import example, given
from hypothesis import strategies as st

from tests.engines.frontends.all_edges import CHOICES, prepared
from tests.parsers.fuzzing import fuzz

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 1}, "b": {"enum": ["x"], "pattern": "a+"}},
    "required": ["a"],
    "$defs": {"c": {"anyOf": [{"$ref": "#"}, {"type": "array", "items": {"type": "string"}}]}},
}
FUNCTION = {"name": "f", "description": "does", "parameters": SCHEMA, "strict": False}
TOOL = {"type": "function", "function": FUNCTION}
# A request with everything. What excludes each other is in requests of its own.
FULL: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "hi"}], "name": "u"},
        {"role": "assistant", "content": "a", "reasoning_content": "r", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "result"},
        {"role": "user", "content": "go on"},
    ],
    "tools": [TOOL],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "n": 2,
    "seed": 1,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 5,
    "min_p": 0.1,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "repetition_penalty": 1.1,
    "max_tokens": 9,
    "min_tokens": 1,
    "stop": ["x"],
    "logprobs": True,
    "top_logprobs": 2,
    "stream": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": False},
    "chat_template_kwargs": {"enable_thinking": False},
    "metadata": {"backedge": {"stop_token_ids": [1], "return_token_ids": True}},
    "nvext": {"extra_fields": [], "max_thinking_tokens": 5},
    "reasoning_effort": "low",
}
EXCLUSIVE: list[dict[str, Any]] = [
    {},
    {"tool_choice": "required"},
    {"tool_choice": {"type": "function", "function": {"name": "f"}}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}},
    {"response_format": {"type": "json_object"}},
    {"guided_json": SCHEMA},
    {"guided_regex": "a+", "guided_whitespace_pattern": " "},
    {"guided_choice": ["a", "b"]},
]
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(
        [
            "",
            "x" * 5000,
            "\ud800",
            "{",
            "[" * 3000,
            "{{ 7 ** 7 }}",
            "<|im_end|>",
            "image_url",
            "$ref",
        ]
    ),
    st.sampled_from([[], {}, [[]], [None], [{}], {"": None}, {"type": 5}, {"$ref": "#"}]),
    st.recursive(
        st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    ),
)


def find_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each value in a request."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from find_paths(value[key], (*path, key))


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    request = copy.deepcopy({**FULL, **draw(st.sampled_from(EXCLUSIVE))})
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(list(find_paths(request))))
        parent = request
        for key in path[:-1]:
            parent = parent[key]
        action = draw(st.sampled_from(["set", "set", "set", "delete", "add", "wrap"]))
        if action == "delete" and isinstance(parent, dict):
            del parent[path[-1]]
        elif action == "add" and isinstance(parent, dict):
            parent[draw(st.text(max_size=5) | st.sampled_from(list(FULL)))] = draw(ODD)
        elif action == "wrap":
            parent[path[-1]] = [parent[path[-1]]]
        else:
            parent[path[-1]] = draw(ODD)
    return request


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("backend", CHOICES)
def test_it_is_prepared_or_refused(
    models: dict[tuple[str, Backend], ChatModel],
    loop: asyncio.AbstractEventLoop,
    backend: Backend,
    engine: str,
) -> None:
    model = models[engine, backend]

    @fuzz(100)
    @given(requests())
    @example(copy.deepcopy({**FULL, "chat_template_kwargs": {"enable_thinking": [1]}}))
    def check(request: dict[str, Any]) -> None:
        try:
            made = prepared(loop, model, request)
        except InvalidArgument:
            return
        assert made.preprocessed["token_ids"]

    check()


@pytest.mark.parametrize("exclusive", EXCLUSIVE, ids=str)
@pytest.mark.parametrize("backend", CHOICES)
def test_as_it_is_it_is_prepared(
    models: dict[tuple[str, Backend], ChatModel],
    loop: asyncio.AbstractEventLoop,
    backend: Backend,
    exclusive: dict[str, Any],
) -> None:
    assert prepared(loop, models["vllm", backend], {**FULL, **exclusive}).preprocessed["token_ids"]
