"""Requests that are small to send and dear to read, render, tokenize or compile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.engines.frontends.bad_requests import USER, json_schema, tool

SELF = {"$ref": "#"}
# Parameters, by their number.
MANY = {
    size: {f"p{index}": {"type": "boolean"} for index in range(size)}
    for size in (300, 1_500, 2_000)
}


def nest(levels: int, word: str = "items") -> dict[str, Any]:
    """Return a schema with this many levels."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", word: schema}
    return schema


def say(content: object) -> dict[str, Any]:
    """Return the messages of one turn."""
    return {"messages": [{"role": "user", "content": content}]}


def dear_requests() -> Iterator[dict[str, Any]]:
    """Yield requests, each with what it has beside `model`."""
    yield say("word " * 4_000_000)
    yield say("x" * 8_000_000)
    yield say("<|im_start|>" * 200_000)
    yield say("\u0301" * 500_000)
    yield say("👩‍👩‍👧‍👦" * 100_000)
    yield say([{"type": "text", "text": "a"}] * 50_000)
    yield {"messages": [USER] * 50_000}
    yield {"messages": [USER], "stop": ["a" * 500_000]}
    yield {"messages": [USER], "chat_template_kwargs": {"enable_thinking": "x" * 5_000_000}}
    yield {"messages": [USER], "chat_template_kwargs": {"enable_thinking": [1]}}
    yield {"messages": [USER], "metadata": {"backedge": "[" * 1_000_000}}
    yield {"messages": [USER], "metadata": {"backedge": '{"\\ud800":1}'}}
    yield {"messages": [USER], "guided_regex": "(a+)+" * 800 + "$"}
    yield {"messages": [USER], "guided_json": "[" * 1_000_000}
    yield {"messages": [USER], "tools": [tool(SELF, f"f{index}") for index in range(2_000)]}
    for schema in (
        {"anyOf": [SELF] * 100},
        {"anyOf": [{"allOf": [SELF] * 30}] * 30},
        {"type": "object", "properties": {f"p{index}": SELF for index in range(5_000)}},
        {"type": "object", "properties": {"p": {"enum": ["x" * 50] * 20_000}}},
        {"type": "object", "properties": {"p": {"pattern": "(a|a)*" * 500}}},
        {"type": "string", "maxLength": 10**18},
        {"type": "string", "pattern": "^[a-z]{1,20000}$"},
        {"type": "string", "pattern": "^(([a-z]{1,100}){1,100}){1,100}$"},
        {"type": "object", "properties": MANY[300], "minProperties": 150},
        {"type": "object", "properties": MANY[2_000]},
        {"type": "object", "properties": MANY[1_500], "required": [*MANY[1_500]]},
        {"type": "object", "properties": {"x" * 900: {"type": "string"}}},
        {"type": "array", "items": {}, "minItems": 10**9},
        nest(50),
        nest(300),
    ):
        yield {"messages": [USER], "tools": [tool(schema)]}
        yield {"messages": [USER], "tools": [tool(schema)], "tool_choice": "required"}
        yield {"messages": [USER], "response_format": json_schema(schema)}
