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
    ("name", "taken"), [("f", True), ("other", True), ("3d", True), ("3", False), ("f3", False)]
)
def test_a_counter_is_no_function(name: str, taken: bool) -> None:
    """Nor is a declared name with more behind it."""
    assert DeclaredFunctions({"f": SCHEMA}, checks=True).may_be_name(name) is taken
    assert DeclaredFunctions({}, checks=True).may_be_name(name), "without tools nothing is known"


@pytest.mark.parametrize(("name", "taken"), [("functions", False), ("other", True), ("f", True)])
def test_a_word_of_the_format_is_no_function(name: str, taken: bool) -> None:
    words = {"to", "functions", "f"}
    assert DeclaredFunctions({"f": SCHEMA}, checks=True).may_be_name(name, words) is taken
    assert DeclaredFunctions({}, checks=True).may_be_name(name, words)
    assert DeclaredFunctions({"f": SCHEMA}, checks=False).may_be_name(name, words)


@pytest.mark.parametrize(("key", "taken"), [("a", True), ("b", True), ("b=1", False)])
def test_a_key_with_markup_is_none(key: str, taken: bool) -> None:
    assert DeclaredFunctions({"f": SCHEMA}, checks=True).may_be_key("f", key) is taken
    assert DeclaredFunctions({"f": SCHEMA}, checks=False).may_be_key("f", key)


def test_a_key_of_the_object_around_arguments_is_none() -> None:
    functions = DeclaredFunctions({"f": SCHEMA, "g": {}}, checks=True)
    assert [functions.may_be_key("f", key, {"a", "x"}) for key in "axb"] == [True, False, True]
    assert functions.may_be_key("g", "x", {"x"}), "nothing is declared"
