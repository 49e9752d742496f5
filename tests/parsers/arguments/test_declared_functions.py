from __future__ import annotations

import pytest
from backedge.parsers.arguments.declared_functions import DeclaredFunctions

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a", 5]}


def test_declared_functions_are_known() -> None:
    functions = DeclaredFunctions({"f": SCHEMA}, checks=True)
    assert [name in functions for name in ("f", "g")] == [True, False]
    assert list(functions) == ["f"]
    assert [list(functions.keys(name)) for name in "fg"] == [["a"], []]
    assert [functions.schema(name).member("a").declared for name in "fg"] == [True, False]


@pytest.mark.parametrize(("checks", "required"), [(True, ["a"]), (False, [])])
def test_required_parameters_are_checked(checks: bool, required: list[str]) -> None:
    assert list(DeclaredFunctions({"f": SCHEMA}, checks=checks).required("f")) == required
    assert not DeclaredFunctions({"f": {"required": "a"}}, checks=checks).required("f")


@pytest.mark.parametrize(
    ("name", "taken"), [("f", True), ("other", True), ("3d", True), ("3", False), ("f3", True)]
)
def test_a_counter_is_no_function(name: str, taken: bool) -> None:
    assert DeclaredFunctions({"f": SCHEMA}, checks=True).may_be_name(name) is taken
    assert DeclaredFunctions({}, checks=True).may_be_name(name), "without tools nothing is known"


@pytest.mark.parametrize(("name", "taken"), [("functions", False), ("other", True), ("f", True)])
def test_a_word_of_the_format_is_no_function(name: str, taken: bool) -> None:
    words = {"to", "functions", "f"}
    assert DeclaredFunctions({"f": SCHEMA}, checks=True).may_be_name(name, words) is taken
    assert DeclaredFunctions({}, checks=True).may_be_name(name, words)
    assert DeclaredFunctions({"f": SCHEMA}, checks=False).may_be_name(name, words)


@pytest.mark.parametrize(
    ("name", "taken"),
    [("functionssearch", False), ("functions.search", False), ("search:0", False),
     ("search12", False), ("searchquery", False), ("search_files", True), ("search_2", True),
     ("research", True), ("search.query_all", True)],
)  # fmt: skip
def test_only_words_of_the_frame_beside_a_declared_name_are_a_slip(name: str, taken: bool) -> None:
    schema = {"properties": {"query": {"type": "string"}}}
    functions = DeclaredFunctions({"search": schema}, checks=True)
    assert functions.may_be_name(name, {"functions", "0"}) is taken
    assert functions.may_be_name(name), "in JSON and Python a name has ends of its own"


@pytest.mark.parametrize(
    ("key", "expected"),
    [('"a', True), ('="a', True), ("a>", True), ("<tool_sep>a", True), ("a", False), (" a", False),
     ('"b', False), ("", False), ("=", False), ("ab=", False)],
)  # fmt: skip
def test_a_declared_key_with_pieces_of_its_tag_is_a_slip(key: str, expected: bool) -> None:
    assert DeclaredFunctions({"f": SCHEMA}, checks=True).has_frame("f", key) is expected
    assert not DeclaredFunctions({"f": SCHEMA}, checks=False).has_frame("f", key)
