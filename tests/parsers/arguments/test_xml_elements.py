"""Elements become the members of an object, typed by the schema, however the text is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from backedge.base.limits import MAX_HELD_VALUE, MAX_TAG
from backedge.parsers.arguments.incremental_grammar import Status
from backedge.parsers.arguments.tool_calls import ToolCallEmitter
from backedge.parsers.arguments.xml_elements import XmlElements
from backedge.parsers.events import ToolCallArguments, ToolCallMalformed, join
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.arguments.reading import cut_pieces

S = "]<]x[>["
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"type": "object", "properties": {"x": {"type": "number"}}},
        "none": {"type": "null"},
        "/v1": {"type": "string"},
        "box": {"type": "object", "properties": {"item": {"type": "string"}}},
        "sizes": {"type": "array", "items": {"type": "string"}},
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "string"}]},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"n": {}}}},
    },
}
cuts = st.sets(st.integers(1, 120), max_size=12)


def element(name: str, inside: str) -> str:
    return f"{S}<{name}>{inside}{S}</{name}>"


def read(text: str, cuts: Any = ()) -> tuple[str, str]:
    """Return the JSON of `text`, and what stands after it from the first tag that ends nothing."""
    calls = ToolCallEmitter({"f": SCHEMA})
    calls.start("f")
    grammar = XmlElements(calls, S)
    held, taken = "", 0
    for piece in cut_pieces(text, cuts):
        taken += len(piece)
        held += piece
        held = held[grammar.read(held) :]
        if grammar.status is Status.UNEXPECTED:
            break
        assert len(held) <= MAX_TAG + len(S)
    if grammar.status is not Status.UNEXPECTED:
        held = held[grammar.read(held, final=True) :]
    grammar.close()
    calls.end()
    arguments = [event.text for event in join(calls.events) if isinstance(event, ToolCallArguments)]
    return "".join(arguments), held + text[taken:]


CASES = [
    (element("city", "Oslo"), {"city": "Oslo"}),
    (element("city", "3") + "\n" + element("days", "3"), {"city": "3", "days": 3}),
    (element("city", "\n x "), {"city": "\n x "}),
    (element("city", ""), {"city": ""}),
    (element("place", element("x", "1.5")), {"place": {"x": 1.5}}),
    (element("tags", element("item", "1") + element("item", "b")), {"tags": ["1", "b"]}),
    (element("tags", ""), {"tags": []}),
    (element("place", ""), {"place": {}}),
    (element("none", ""), {"none": None}),
    (element("free", "3"), {"free": 3}),
    (element("free", element("a", "x") + element("b", "y")), {"free": {"a": "x", "b": "y"}}),
    (f"{S}<city>a < b </b> c</city>", {"city": "a < b </b> c</city>"}),
    (f"{S}<city>a {S}<b> c{S}</city>", {"city": f"a {S}<b> c"}),
    (f"{S}<city>Oslo", {"city": "Oslo"}),
    (f"{S}<place>{S}<x>1", {"place": {"x": 1}}),
    ("", {}),
    # Keys that look like something else.
    (element("/v1", "x") + element("city", "y"), {"/v1": "x", "city": "y"}),
    (element("a/b c", "x"), {"a/b c": "x"}),
    (element("box", element("item", "1")), {"box": {"item": "1"}}),
    (element("place", element("item", "1")), {"place": {"item": 1}}),
    (element("free", element("x", "1") + element("item", "2")), {"free": {"x": 1, "item": 2}}),
    (element("item", "x"), {"item": "x"}),
    (element("sizes", element("size", "1") + element("size", "2")), {"sizes": ["1", "2"]}),
    (element("pair", element("item", "1") + element("item", "2")), {"pair": ["1", "2"]}),
    (element("rows", element("n", "1")), {"rows": {"n": 1}}),
    # Members that are repeated.
    (element("sizes", "1") + element("sizes", "2"), {"sizes": ["1", "2"]}),
    (element("sizes", '["1"]') + element("city", "x"), {"sizes": ["1"], "city": "x"}),
    (element("free", "1") + "\n" + element("free", "b") + element("city", ""),
     {"free": [1, "b"], "city": ""}),
    (element("free", element("k", "1") + element("k", "") + element("l", "2")),
     {"free": {"k": [1, ""], "l": 2}}),
    (element("free", "1") + element("free", element("k", "2")), {"free": [1, {"k": 2}]}),
    (element("free", "1") + element("free", element("item", "2")) + element("free", "3"),
     {"free": [1, [2], 3]}),
    (element("free", ""), {"free": ""}),
    # A start tag that is doubled counts once where the value contains no other.
    (f"{S}<city>{element('city', 'Oslo')}", {"city": "Oslo"}),
    (f"{S}<days>{element('days', '3')}{element('city', 'x')}", {"days": 3, "city": "x"}),
    (element("free", element("free", "x")), {"free": {"free": "x"}}),
    (element("tags", element("item", element("item", "x"))) + element("days", "3"),
     {"tags": [["x"]], "days": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), CASES)
@given(cuts=cuts)
def test_elements_are_members(text, value, cuts):
    arguments, rest = read(text, cuts)
    assert json.loads(arguments) == value
    assert rest == ""


def test_an_element_in_a_value_that_contains_none_leaves_the_call_open():
    """The end tag of `city` is missing."""
    calls = ToolCallEmitter({"f": SCHEMA})
    calls.start("f")
    XmlElements(calls, S).read(f"{S}<city>{element('days', '3')}{S}</city>", final=True)
    calls.end()
    assert ToolCallMalformed(0, "swallowed_markup") in calls.events


@pytest.mark.parametrize("end", [f"{S}</invoke>", f"{S}<>", f"{S}text", f"{S}<{'x' * MAX_TAG}y>"])
@given(cuts=cuts)
def test_it_stops_at_what_is_not_a_tag_of_its_own(end, cuts):
    if len(end) > MAX_TAG:
        cuts = range(1, len(end) + 40)
        end = end[: len(S) + MAX_TAG + 1]
    assert read(element("city", "Oslo") + end, cuts) == ('{"city": "Oslo"}', end)


@pytest.mark.parametrize("size", [MAX_HELD_VALUE, MAX_HELD_VALUE + 1])
def test_a_repeated_member_does_not_wait_without_end(size):
    value = "a" * size
    text = element("free", "1") + element("free", value) + element("free", "b")
    expected = {"free": [1, value, "b"]}
    assert json.loads(read(text)[0]) == expected
    assert json.loads(read(text, range(1, len(text), 999))[0]) == expected
    many = "".join(element("free", "a" * 9999) for _ in range(20))
    assert json.loads(read(many)[0]) == {"free": ["a" * 9999] * 20}


keys = st.sampled_from(["city", "days", "tags", "place", "free", "b", "item"])
texts = st.text('ab 1.{}<>/\n"\\é', max_size=8)
trees = st.recursive(
    texts,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(keys, inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)


def written(tree: Any) -> str:
    if isinstance(tree, dict):
        return "".join(element(key, written(part)) for key, part in tree.items())
    if isinstance(tree, list):
        return "".join(element("item", written(part)) for part in tree)
    return str(tree)


@given(members=st.dictionaries(keys, trees, max_size=3), cuts=cuts)
def test_every_tree_is_json_and_does_not_depend_on_the_cut(members, cuts):
    text = written(members)
    whole = read(text)
    assert read(text, cuts) == whole
    # A parameter within a value that contains no other leaves the call open.
    inside = "".join(map(written, members.values()))
    if not any(f"<{key}>" in inside for key in SCHEMA["properties"]):
        assert set(json.loads(whole[0])) == set(members)
