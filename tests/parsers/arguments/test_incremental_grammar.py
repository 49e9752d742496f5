from __future__ import annotations

import pytest
from backedge.parsers.arguments.incremental_grammar import (
    IncrementalGrammar,
    Status,
    partial_length,
)
from hypothesis import given
from hypothesis import strategies as st


class Words(IncrementalGrammar):
    """Reads words up to a full stop; a word waits for the space after it."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._state = self._word

    @property
    def in_string(self) -> bool:
        return False

    @property
    def in_argument(self) -> bool:
        return False

    def take_unexpected(self, char: str) -> None:
        self.words.append(char)

    def close(self) -> None:
        self.status = Status.DONE

    def _word(self, text: str, position: int) -> int:
        end = text.find(" ", position)
        if text[position] == ".":
            self.status = Status.DONE
            return position + 1
        if text[position] == "!":
            self.status = Status.UNEXPECTED
            return position
        if end < 0 and not self._final:
            return position
        self.words.append(text[position : end if end >= 0 else len(text)])
        self._state = self._space
        return end if end >= 0 else len(text)

    def _space(self, text: str, position: int) -> int:
        self._state = self._word
        return position + 1


@pytest.mark.parametrize(
    ("text", "final", "position", "status", "words"),
    [
        ("one two ", False, 8, Status.MORE, ["one", "two"]),
        ("one two", False, 4, Status.MORE, ["one"]),
        ("one two", True, 7, Status.MORE, ["one", "two"]),
        ("one .two", False, 5, Status.DONE, ["one"]),
        ("one !two", False, 4, Status.UNEXPECTED, ["one"]),
        ("", False, 0, Status.MORE, []),
    ],
)
def test_a_piece_is_read_as_far_as_its_states_go(text, final, position, status, words):
    grammar = Words()
    assert grammar.read(text, final=final) == position
    assert (grammar.status, grammar.words) == (status, words)


def test_reading_begins_where_it_is_told():
    grammar = Words()
    assert grammar.read("one two ", 4) == 8
    assert grammar.words == ["two"]


@given(text=st.text('<|">a', max_size=12), start=st.integers(0, 12))
def test_the_longest_beginning_of_a_mark_at_the_end(text: str, start: int):
    mark = '<|"|>'
    ends = [text[at:] for at in range(min(start, len(text)), len(text))]
    expected = max((len(end) for end in ends if mark.startswith(end) and end != mark), default=0)
    assert partial_length(text, mark, start) == expected
