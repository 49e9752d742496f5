"""Text that waits: its end is kept, and its length."""

from __future__ import annotations

from typing import get_args

import pytest
from backedge.parsers.held_text import EXPLANATIONS, MAX_SHOWN, HeldText, Why, hold, hold_pieces


def test_every_reason_is_explained() -> None:
    assert set(EXPLANATIONS) == set(get_args(Why))


def test_nothing_is_held_of_an_empty_text() -> None:
    assert hold("white space", "") == []
    assert hold_pieces("native parser", [], 0) == []


def test_the_end_of_a_long_text_is_kept() -> None:
    text = "a" * MAX_SHOWN + "b"
    assert hold("possible call", text) == [
        HeldText("possible call", "a" * (MAX_SHOWN - 1) + "b", MAX_SHOWN + 1)
    ]


@pytest.mark.parametrize("count", [1, 3, MAX_SHOWN, 1000])
def test_pieces_are_as_their_text(count: int) -> None:
    pieces = [f"{number} " for number in range(count)]
    text = "".join(pieces)
    assert hold_pieces("native parser", reversed(pieces), len(text)) == hold("native parser", text)


def test_no_more_pieces_are_read_than_are_shown() -> None:
    pieces = iter(["x" * MAX_SHOWN, "y", "z"])
    hold_pieces("native parser", pieces, MAX_SHOWN + 2)
    assert list(pieces) == ["y", "z"]


def test_a_piece_of_which_a_part_is_gone_shows_the_rest() -> None:
    assert hold_pieces("possible stop string", ["de", "abc"], 3)[0].text == "cde"
