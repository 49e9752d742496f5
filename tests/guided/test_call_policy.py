"""Which grammar an answer gets, without a card; `test_card_policy` has Dynamo's rules."""

from __future__ import annotations

import json
from typing import Any

import pytest
from backedge.guided.call_policy import CallPolicy, find_call_format
from backedge.guided.guided_request import GuidedRequest, decode_request
from backedge.parsers.base import ParserNames

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
STRICT = {"type": "function", "function": {"name": "f", "strict": True}}
NAMED = {"type": "function", "function": {"name": "f"}}
# A name that no tag can have.
QUOTED = {"type": "function", "function": {"name": 'a"b', "strict": True}}
# fields, what the grammar is with the tags of hermes, and without tags
CASES: list[tuple[dict[str, Any], str | None, str | None]] = [
    ({}, None, None),
    ({"tools": [TOOL]}, None, None),
    ({"tools": [STRICT]}, "structural_tag", None),
    ({"tools": [STRICT], "tool_choice": "none"}, None, None),
    ({"tools": [TOOL], "parallel_tool_calls": False}, "structural_tag", None),
    ({"tools": [TOOL], "tool_choice": "required"}, "structural_tag", "json"),
    ({"tools": [TOOL], "tool_choice": NAMED}, "structural_tag", "json"),
    ({"tools": [QUOTED], "tool_choice": "required"}, "json", "json"),
    ({"response_format": {"type": "text"}}, None, None),
    ({"response_format": {"type": "json_object"}}, "json", "json"),
    ({"tools": [STRICT], "response_format": {"type": "json_object"}}, "json", "json"),
    ({"guided_regex": "a+"}, "regex", "regex"),
]


@pytest.mark.parametrize(("fields", "tagged", "plain"), CASES, ids=str)
def test_the_grammar(fields: dict[str, Any], tagged: str | None, plain: str | None) -> None:
    request = decode_request(fields, GuidedRequest)
    for names, kind in ((ParserNames("hermes"), tagged), (ParserNames(), plain)):
        policy = CallPolicy(calls=find_call_format(names))
        found = policy.constrain(request)
        assert list(found or [None]) == [kind]
        assert policy.constrains(request) is (kind is not None)


def test_forced_calls_of_a_format_without_tags_are_left_to_others() -> None:
    request = decode_request({"tools": [TOOL], "tool_choice": "required"}, GuidedRequest)
    policy = CallPolicy()
    assert policy.constrain(request, lambda: {"regex": "x"}) == {"regex": "x"}
    assert list(policy.constrain(request, lambda: None) or []) == ["json"]
    assert not policy.replaces_all


@pytest.mark.parametrize("suffix", ["", ":opensource"])
def test_a_grammar_has_the_markers_as_the_checkpoint_spells_them(suffix: str) -> None:
    request = decode_request({"tools": [TOOL], "tool_choice": "required"}, GuidedRequest)
    tokens = [f"<{name}{suffix}>" for name in ("tool_calls", "/tool_calls", "tool_sep", "think")]
    calls = find_call_format(ParserNames("hy_v3"), lambda: tokens)
    found = json.dumps(CallPolicy(calls=calls).constrain(request))
    assert all(token in found for token in tokens[:3])
    assert "<tool_call>" in found  # not a token: as in the table
