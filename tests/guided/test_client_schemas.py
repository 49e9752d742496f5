"""Which schemas are correct: those that jsonschema calls so, of bounded size, in linear time."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
from backedge.base.json_schema import HOLDERS
from backedge.base.limits import MAX_GROUPS, MAX_SCHEMA_DEPTH, MAX_SUBSCHEMAS, MAX_TOOL_FORMS_BYTES
from backedge.frontend.request.tool_schema_cache import (
    BYTES_EACH,
    StandardForms,
    find_tool_schema_fault,
    standard_parameters,
)
from backedge.guided.client_schemas import KEYWORDS, find_fault, find_keyword, find_pattern_fault
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft4Validator, Draft7Validator, Draft202012Validator
from jsonschema.exceptions import SchemaError

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.5, 1.0, -2.0]),
    st.sampled_from(["", "a", "string", "object", "nonsense", "(", "^a+$"]),
    st.lists(st.sampled_from(["a", "b", "string", "object", 1, None]), max_size=2),
    st.dictionaries(
        st.sampled_from(["a", "("]), st.sampled_from([["a"], ["a", "a"], 1]), max_size=1
    ),
)
# What jsonschema also demands of the form of these strings says nothing of a schema's meaning.
WORDS = sorted({*KEYWORDS, *HOLDERS} - {"$id", "$anchor", "$dynamicAnchor", "$schema", "$ref"})
SCHEMAS = st.recursive(
    VALUES,
    lambda inner: st.dictionaries(
        st.sampled_from(WORDS),
        inner
        | VALUES
        | st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "("]), inner, max_size=2),
        max_size=3,
    ),
    max_leaves=8,
)
DRAFTS = {
    "http://json-schema.org/draft-04/schema#": Draft4Validator,
    "http://json-schema.org/draft-07/schema#": Draft7Validator,
    "https://json-schema.org/draft/2020-12/schema": Draft202012Validator,
}


def accepts(validator: Any, schema: Any) -> bool:
    try:
        validator.check_schema(schema)
    except SchemaError:
        return False
    return True


@given(SCHEMAS)
@example({"$defs": {"a": {"type": []}}})
@example({"dependencies": {"a": ["b"], "c": {"type": "nonsense"}}})
def test_the_newest_draft_as_jsonschema_has_it(schema: Any) -> None:
    assert (find_fault(schema) is None) is accepts(Draft202012Validator, schema)


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(
    "schema",
    [
        {"items": [{}]},
        {"items": [{"type": "nonsense"}]},
        {"items": {"type": 5}},
        {"minimum": 1, "exclusiveMinimum": 2},
        {"minimum": 1, "exclusiveMinimum": True},
        {"prefixItems": [{}]},
        {"type": "dict"},
        {"definitions": {"a": {"type": 5}}},
    ],
)
def test_the_draft_that_a_schema_names(draft: str, schema: Any) -> None:
    schema = {"$schema": draft, **schema}
    assert (find_fault(schema) is None) is accepts(DRAFTS[draft], schema)


ITSELF = {"$ref": "#"}
CIRCLE = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
DOUBLING = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(90)}
HOSTILE = {
    "itself": {"anyOf": [ITSELF] * 100, "properties": {"a": {"allOf": [ITSELF] * 100}}},
    "a circle": {"$defs": CIRCLE, "$ref": "#/$defs/a"},
    "doubling": {"$defs": DOUBLING, "$ref": "#/$defs/d0"},
    "dynamic": {"$dynamicAnchor": "a", "anyOf": [{"$dynamicRef": "#a"}] * 100},
    "many values": {"enum": list(range(20_000))},
    "many properties": {"properties": {f"p{n}": {"type": "string"} for n in range(5_000)}},
    "many required": {"required": [f"p{n}" for n in range(20_000)]},
    "catastrophic backtracking": {"pattern": "(a+)+$" * 100, "default": "a" * 1000},
}


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
def test_a_schema_is_looked_at_once_whatever_refers_to_it(schema: Any) -> None:
    assert find_fault(schema) is None
    assert find_tool_schema_fault(schema) is None
    assert standard_parameters(schema) == schema


def nested(levels: int) -> Any:
    schema: Any = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "allowed"),
    [
        (nested(MAX_SCHEMA_DEPTH), "levels deep"),
        ({"default": nested(MAX_SCHEMA_DEPTH)}, "levels deep"),
        ({"allOf": [{}] * MAX_SUBSCHEMAS}, "schemas in one"),
        ({"pattern": "(" * 5000 + ")" * 5000}, "regular expression"),
        ({"pattern": "a" * 10_000}, "regular expression"),
        ({"patternProperties": {"(" * 100 + ")" * 100: {}}}, "regular expression"),
    ],
)
def test_what_is_too_large_says_so(schema: Any, allowed: str) -> None:
    fault = find_fault(schema)
    assert fault is not None
    assert allowed in fault.allowed


# Pieces of expressions, in any order: correct ones, and each fault that compiling finds.
PIECES = [
    *("a", "\u0142", ".", "^", "$", "|", "(", ")", "(?:", "*", "+?", "{2}", "{3,1}", "{0,9}", "["),
    *("]", "-", "[^a]", "[b-a]", "[a-\u0142]", "[\uffff-a]", "\\w", "\\q", "\\1", "\\", "\\u0142"),
    *("(?i)", "(?i:", "(?P<n>", "(?P=n)", "(?(1)", "(?=", "(?!", "(?<=", "(?<!", "(?<=a|bc)"),
    *("(?<!a*)", "(?<=(a)b)", "(?<=\\1)", "(?x)", "#", "\\N{DASH}", "\\N{EN DASH}", "\\U00110000"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_a_pattern_is_correct_if_it_compiles(pattern: str) -> None:
    with warnings.catch_warnings(action="ignore"):
        try:
            re.compile(pattern)
        except (re.error, OverflowError):
            compiles = False
        else:
            compiles = True
        assert (find_fault({"pattern": pattern}) is None) is compiles


def test_groups_are_counted_as_they_are_nested() -> None:
    assert find_pattern_fault("(a)" * 1000) is None
    assert find_pattern_fault(r"\(" * 1000) is None
    assert find_pattern_fault("(" * MAX_GROUPS + ")" * MAX_GROUPS) is None
    assert find_pattern_fault("(" * (MAX_GROUPS + 1)) is not None
    assert find_pattern_fault(5) is not None


def test_a_nested_schema_just_within_the_limit_is_correct() -> None:
    assert find_fault(nested(MAX_SCHEMA_DEPTH - 1)) is None


def test_what_is_remembered_is_bounded_in_bytes() -> None:
    forms = StandardForms()
    for number in range(2 * MAX_TOOL_FORMS_BYTES // BYTES_EACH):
        forms.add(number.to_bytes(8, "big"), None, 10**9)
    assert MAX_TOOL_FORMS_BYTES - BYTES_EACH <= forms.size <= MAX_TOOL_FORMS_BYTES
    assert forms.find((0).to_bytes(8, "big")) is None
    last = (number).to_bytes(8, "big")
    assert forms.find(last) is not None
    forms.add(b"large", {"type": "object"}, MAX_TOOL_FORMS_BYTES)
    assert forms.find(b"large") is None, "what is too large for all of it is not kept"
    assert forms.size == 0


def test_a_keyword_counts_only_where_it_is_one():
    assert find_keyword({"items": [{"not": {}}], "$schema": list(DRAFTS)[1]}, {"not"}) == "not"
    assert find_keyword({"properties": {"a": {"anyOf": [{}, {"if": {}}]}}}, {"if"}) == "if"
    for schema in (True, None, {"properties": {"not": {}}, "enum": [{"not": 1}]}):
        assert find_keyword(schema, {"not"}) is None
