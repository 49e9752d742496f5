"""When a request's calls are held to the model's own syntax; `test_call_grammar` has the edges."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.frontend.model_builder import read_call_policy
from backedge.guided.call_policy import ANY_OBJECT, admits_only_empty_object
from backedge.parsers.base import ParserNames
from backedge.parsers.response_template import name_description
from dynamo.common.utils import guided_json
from dynamo.frontend.structural_tag_policy import (
    effective_tool_strict,
    should_attempt_structural_tag,
)
from hypothesis import example, given
from hypothesis import strategies as st

from tests.frontend.chat_requests import NAMED, PARAMETERS, TOOL, chat_request
from tests.parsers.made_up import ENDLESS_NAME, MADE_UP

ON: dict[str, Any] = {"structural_tag": {"scope": "always", "schema": "auto"}}
HOLDS_BACK = {"runtime_data": {"tool_call_structural_tag_excludes_reasoning": True}}
BEGINS = {"runtime_data": {"tool_call_structural_tag_excludes_reasoning": False}}
DESCRIBED = name_description(MADE_UP)
EDGES = {"json": {"type": "array"}}


def constrain(
    names: ParserNames, runtime_config: dict[str, Any], **fields: Any
) -> dict[str, Any] | None:
    request = chat_request(tools=[TOOL], **fields)
    return read_call_policy(runtime_config, names).constrain(request, lambda: EDGES)


# card: whether its workers take the model's own syntax
FORCED: list[tuple[dict[str, Any], bool]] = [
    (ON, True),
    (ON | HOLDS_BACK, True),
    (ON | BEGINS, True),
    ({}, False),
    ({"structural_tag": None}, False),
]
THINKERS = [None, "qwen3", "minimax_m2_append_think", DESCRIBED]


@pytest.mark.parametrize("reasoning", THINKERS)
@pytest.mark.parametrize(("card", "tagged"), FORCED, ids=str)
@pytest.mark.parametrize("choice", ["required", NAMED])
def test_the_card_alone_decides_on_the_syntax_of_forced_calls(
    reasoning: str | None, card: dict[str, Any], tagged: bool, choice: Any
) -> None:
    found = constrain(ParserNames("hermes", reasoning), card, tool_choice=choice)
    assert found is not None
    assert ("structural_tag" in found) is tagged
    assert (found == EDGES) is not tagged


# reasoning parser, card: the markers of the reasoning that grammars let pass
PASSED = [
    (None, ON | BEGINS, None),
    ("qwen3", ON, None),
    ("qwen3", ON | HOLDS_BACK, None),
    ("qwen3", ON | BEGINS, "<think>"),
    (DESCRIBED, {}, "<|muse|>"),
    (DESCRIBED, HOLDS_BACK, None),
    (ENDLESS_NAME, ON, "<|muse|>"),
]


@pytest.mark.parametrize(("reasoning", "card", "begin"), PASSED)
def test_a_grammar_lets_reasoning_pass_where_no_engine_does(
    reasoning: str | None, card: dict[str, Any], begin: str | None
) -> None:
    tags = read_call_policy(card, ParserNames(None, reasoning)).reasoning
    assert (tags is not None and tags.begins[0].strip()) == (begin or False)


@pytest.mark.parametrize("reasoning", [None, "qwen3"])
def test_text_before_a_call_is_free_so_reasoning_is(reasoning: str | None) -> None:
    found = constrain(ParserNames("hermes", reasoning), ON)
    assert found is not None
    assert found["structural_tag"]["format"]["type"] == "triggered_tags"


@pytest.mark.parametrize("name", ["unknown", None])
def test_an_edges_own_grammar_for_auto_is_dropped_where_there_are_no_tags(name: str | None) -> None:
    names = ParserNames(name, None)
    assert constrain(names, ON) is None
    assert constrain(names, ON, tool_choice="required") == EDGES


OWN = [
    {"response_format": {"type": "json_object"}},
    {"guided_regex": "a+"},
    {"guided_choice": ["a"]},
    {"tool_choice": "none"},
]


@pytest.mark.parametrize("fields", OWN, ids=str)
def test_the_clients_own_constraint_stays(fields: dict[str, Any]) -> None:
    assert constrain(ParserNames("hermes", None), ON, **fields) == EDGES


def find_arguments(found: dict[str, Any]) -> dict[str, Any]:
    """Return the only constraint on arguments."""
    waiting: list[Any] = [found]
    for part in waiting:
        if isinstance(part, dict) and part.get("type") == "json_schema":
            return part
        waiting += part.values() if isinstance(part, dict) else part if type(part) is list else ()
    raise AssertionError(found)


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
    policy = read_call_policy(config, ParserNames("hermes"))
    found = policy.constrain(chat_request(tools=[tool]), lambda: None)
    assert found is not None
    arguments = find_arguments(found)
    assert arguments["json_schema"] == held_to
    assert arguments["any_order"] is False


def test_the_card_may_free_the_order_of_arguments() -> None:
    config = {"structural_tag": {**ON["structural_tag"], "tool_arguments_any_order": True}}
    found = constrain(ParserNames("hermes", None), config)
    assert found is not None
    assert find_arguments(found)["any_order"] is True


@pytest.mark.parametrize("mode", ["on", "off"])
@pytest.mark.parametrize("scope", ["auto", "always"])
@pytest.mark.parametrize("strict", [None, False, True])
@pytest.mark.parametrize("parallel", [None, False, True])
@pytest.mark.parametrize("choice", ["none", "auto", "required"])
def test_when_there_is_a_tag_is_dynamos_rule(
    mode: str, scope: str, strict: Any, parallel: Any, choice: Any
) -> None:
    tool = {"type": "function", "function": {"name": "f", "strict": strict}}
    config = {"structural_tag_mode": mode, "structural_tag_scope": scope}
    request = chat_request(tools=[tool], tool_choice=choice, parallel_tool_calls=parallel)
    policy = read_call_policy(config, ParserNames("hermes"))
    found = policy.constrain(request)
    assert ("structural_tag" in (found or {})) is should_attempt_structural_tag(
        mode=mode,
        scope=scope,
        tool_choice_kind=choice,
        has_tools=True,
        any_explicit_strict=strict is True,
        parallel_tool_calls_explicitly_false=parallel is False,
    )
    assert policy.constrains(request) is (found is not None)


@pytest.mark.parametrize("schema", ["auto", "strict"])
@pytest.mark.parametrize("strict", [None, False, True])
def test_strictness_is_dynamos_rule(schema: str, strict: Any) -> None:
    policy = read_call_policy({"structural_tag": {"schema": schema}}, ParserNames("hermes"))
    function = {"name": "f", "parameters": PARAMETERS, "strict": strict}
    [tool] = chat_request(tools=[{"type": "function", "function": function}]).tools or []
    assert (policy._read_schema(tool) is not ANY_OBJECT) is effective_tool_strict(strict, schema)


WORDS: dict[str, list[Any]] = {
    "type": ["object", "string", None],
    "additionalProperties": [False, True, {}],
    "properties": [{}, {"a": {}}, []],
    "required": [[], ["a"], {}],
    "minProperties": [0, 1, False],
    "maxProperties": [0, 3, -1, 1.0],
    "description": ["x"],
    "examples": [[{}]],
    "patternProperties": [{}],
    "$ref": ["#"],
}


@given(st.fixed_dictionaries({}, optional={k: st.sampled_from(v) for k, v in WORDS.items()}))
@example({"type": "object", "additionalProperties": False})
@example({"type": "object", "additionalProperties": False, "properties": {}, "required": []})
def test_a_schema_of_the_empty_object_is_dynamos(schema: dict[str, Any]) -> None:
    assert admits_only_empty_object(schema) is guided_json.admits_only_empty_object(schema)
