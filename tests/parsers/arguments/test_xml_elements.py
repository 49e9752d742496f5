"""Elements become the members of an object, typed by the schema, however the text is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from backedge.parsers.arguments.incremental_grammar import Status
from backedge.parsers.arguments.tool_calls import ToolCallEmitter
from backedge.parsers.arguments.xml_elements import MAX_TAG, XmlElements
from backedge.parsers.events import Event, ToolCallArguments, join
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
    },
}
cuts = st.sets(st.integers(1, 120), max_size=12)


def element(name: str, inside: str) -> str:
    return f"{S}<{name}>{inside}{S}</{name}>"


def read(text: str, cuts: Any = ()) -> tuple[str, str]:
    """Return the JSON of `text`, and what stands after it from the first tag that ends nothing."""
    events: list[Event] = []
    calls = ToolCallEmitter(events, {"f": SCHEMA})
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
    arguments = [event.text for event in join(events) if isinstance(event, ToolCallArguments)]
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
    (f"{S}<city>a < b </b> c</city>", {"city": "a < b </b> c"}),
    (f"{S}<city>a {S}<b> c{S}</city>", {"city": f"a {S}<b> c"}),
    (f"{S}<city>Oslo", {"city": "Oslo"}),
    (f"{S}<place>{S}<x>1", {"place": {"x": 1}}),
    ("", {}),
]


@pytest.mark.parametrize(("text", "value"), CASES)
@given(cuts=cuts)
def test_elements_are_members(text, value, cuts):
    arguments, rest = read(text, cuts)
    assert json.loads(arguments) == value
    assert rest == ""


@pytest.mark.parametrize("end", [f"{S}</invoke>", f"{S}<>", f"{S}text", f"{S}<{'x' * MAX_TAG}y>"])
@given(cuts=cuts)
def test_it_stops_at_what_is_not_a_tag_of_its_own(end, cuts):
    if len(end) > MAX_TAG:
        cuts = range(1, len(end) + 40)
        end = end[: len(S) + MAX_TAG + 1]
    assert read(element("city", "Oslo") + end, cuts) == ('{"city": "Oslo"}', end)


keys = st.sampled_from(["city", "days", "tags", "place", "free", "b"])
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
    assert set(json.loads(whole[0])) == set(members)
    assert read(text, cuts) == whole
