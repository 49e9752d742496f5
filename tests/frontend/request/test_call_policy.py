"""When a request's calls are held to the model's own syntax; `test_call_grammar` has the edges."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.frontend.request.call_policy import ANY_OBJECT, CallPolicy
from backedge.parsers.base import ParserNames

from tests.frontend.chat_requests import NAMED, PARAMETERS, TOOL, chat_request

ON: dict[str, Any] = {"structural_tag": {"scope": "always", "schema": "auto"}}
HOLDS_BACK = {"runtime_data": {"tool_call_structural_tag_excludes_reasoning": True}}
EDGES = {"json": {"type": "array"}}


def constrain(
    names: ParserNames, runtime_config: dict[str, Any], engine: str | None, **fields: Any
) -> dict[str, Any] | None:
    request = chat_request(tools=[TOOL], **fields)
    return CallPolicy(runtime_config, names, engine).constrain(request, lambda: EDGES)


# reasoning parser, card, engine: whether a forced call may be held to a tag from the first token
FORCED = [
    (None, ON, None, True),
    ("qwen3", ON, None, False),
    ("qwen3", ON, "vllm", False),
    ("qwen3", ON | HOLDS_BACK, "vllm", True),
    ("qwen3", ON, "sglang", True),
    (None, {}, "vllm", False),
    (None, {"structural_tag": None}, "vllm", False),
]


@pytest.mark.parametrize(("reasoning", "card", "engine", "tagged"), FORCED)
@pytest.mark.parametrize("choice", ["required", NAMED])
def test_forced_calls_leave_room_for_reasoning(
    reasoning: str | None, card: dict[str, Any], engine: str | None, tagged: bool, choice: Any
) -> None:
    names = ParserNames("hermes", reasoning)
    found = constrain(names, card, engine, tool_choice=choice)
    assert (found == EDGES) is not tagged
    assert found is not None
    assert ("structural_tag" in found) is tagged


@pytest.mark.parametrize("reasoning", [None, "qwen3"])
def test_text_before_a_call_is_free_so_reasoning_is(reasoning: str | None) -> None:
    found = constrain(ParserNames("hermes", reasoning), ON, "vllm")
    assert found is not None
    assert found["structural_tag"]["format"]["type"] == "triggered_tags"


@pytest.mark.parametrize("name", ["pythonic", "unknown", None])
def test_an_edges_own_grammar_for_auto_is_dropped_where_there_are_no_tags(name: str | None) -> None:
    names = ParserNames(name, None)
    assert constrain(names, ON, "vllm") is None
    assert constrain(names, ON, "vllm", tool_choice="required") == EDGES


OWN = [
    {"response_format": {"type": "json_object"}},
    {"guided_regex": "a+"},
    {"guided_choice": ["a"]},
    {"tool_choice": "none"},
]


@pytest.mark.parametrize("fields", OWN, ids=str)
def test_the_clients_own_constraint_stays(fields: dict[str, Any]) -> None:
    assert constrain(ParserNames("hermes", None), ON, "vllm", **fields) == EDGES


# what the card says of schemas, what a tool says: what its arguments are held to
STRICTNESS = [
    ("auto", None, PARAMETERS),
    ("auto", True, PARAMETERS),
    ("auto", False, ANY_OBJECT),
    ("strict", False, PARAMETERS),
]


@pytest.mark.parametrize(("schema", "strict", "held_to"), STRICTNESS)
def test_strict_false_frees_the_arguments(schema: str, strict: Any, held_to: Any) -> None:
    tool = {
        "type": "function",
        "function": {"name": "f", "parameters": PARAMETERS, "strict": strict},
    }
    config = {"structural_tag": {"scope": "always", "schema": schema}}
    policy = CallPolicy(config, ParserNames("hermes", None), "vllm")
    found = policy.constrain(chat_request(tools=[tool]), lambda: None)
    assert found is not None
    (tag,) = found["structural_tag"]["format"]["tags"]
    assert tag["content"]["json_schema"] == held_to
    assert tag["content"]["any_order"] is False


def test_the_card_may_free_the_order_of_arguments() -> None:
    config = {"structural_tag": {**ON["structural_tag"], "tool_arguments_any_order": True}}
    found = constrain(ParserNames("hermes", None), config, "vllm")
    assert found is not None
    assert found["structural_tag"]["format"]["tags"][0]["content"]["any_order"] is True
