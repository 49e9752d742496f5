"""Whether text begins a literal of Python is known as soon as it can be."""

from __future__ import annotations

import pytest
from backedge.parsers.arguments.python_words import begins_literal


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("'x", True), ("[x", True), ("br'x", True), ("f'x'", False), ("x)", False), ("True,", True),
        ("1 )", True), ("1 + 2)", False), ("1 b=2)", True), ("1 b==2)", False), ("*x)", False),
        ("null)", True), ("1", None), ("Tr", None), ("1 b", None), ("", None),
    ],
)  # fmt: skip
def test_a_literal_is_known_by_its_beginning(text: str, begins: bool | None) -> None:
    assert begins_literal(text, 0, final=False) is begins
