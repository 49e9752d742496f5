"""An item that is no call ends with its brackets and strings, however the text is cut."""

from __future__ import annotations

import pytest
from backedge.parsers.arguments.other_items import OtherItem


def read_item(item: OtherItem, text: str) -> str:
    """Return the item that `text` begins with."""
    position = 0
    while position < len(text):
        end = item.read_run(text, position)
        if item.ends_before(text[position]):
            break
        if end == position:
            item.take(text[position])
            end += 1
        position = end
    return text[:position]


@pytest.mark.parametrize(
    ("text", "item"),
    [
        ("5, {}", "5"),
        ("null]", "null"),
        ('"a, ]", {}', '"a, ]"'),
        (r'"a\"]", {}', r'"a\"]"'),
        (r'"a\\", {}', r'"a\\"'),
        ('{"a": [1, {"b": "}"}]}, {}', '{"a": [1, {"b": "}"}]}'),
        ("[1, [2]] {}", "[1, [2]]"),
        ("it isn't one, {}", "it isn't one"),
        ('5" wide, {}', '5" wide'),
        ("no {a, b} more, {}", "no {a, b}"),
    ],
)
def test_an_item_of_an_array_ends(text: str, item: str) -> None:
    assert read_item(OtherItem(",;]", closes=True), text) == item


def test_a_line_ends_outside_brackets() -> None:
    assert read_item(OtherItem("\n"), "a, b(\n1)]\nc") == "a, b(\n1)]"


def test_a_member_ends_with_its_object() -> None:
    assert read_item(OtherItem(",;]", closes=True, depth=1), '"f": 5, "g": 6}, {}') == (
        '"f": 5, "g": 6}'
    )
