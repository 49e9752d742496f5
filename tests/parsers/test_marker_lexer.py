"""The marker lexer by itself: markers found as text and as tokens, held back, reread."""

from __future__ import annotations

import itertools

import pytest
from backedge.parsers.compiled_format import compile_format
from backedge.parsers.format import Format, ReuseSuffix, State
from backedge.parsers.marker_lexer import MarkerLexer
from hypothesis import given
from hypothesis import strategies as st

FORMAT = Format(
    "test",
    {
        State.CONTENT: {"<name>": State.NAME, "<n": State.IGNORED},
        State.NAME: {"{": ReuseSuffix(State.ARGUMENTS)},
        State.ARGUMENTS: {"<end>": State.CONTENT},
        State.IGNORED: {">": State.CONTENT},
    },
    source="this test",
    initial_state=State.CONTENT,
)
TOKENS = {"<name>": 1, "<end>": 2}
TABLES = {bool(ids): compile_format(None, FORMAT, ids, guided=True) for ids in ({}, TOKENS)}


class Recorder(MarkerLexer):
    """Follows the table, and notes the text of each state."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        super().__init__(TABLES[bool(vocabulary)])
        self.read: list[tuple[State, str]] = []
        self._look_for(State.CONTENT)

    def _on_text(self, text: str) -> int:
        if self.read and self.read[-1][0] is self._state:
            text = self.read.pop()[1] + text
            self.read.append((self._state, text))
            return len(text)
        self.read.append((self._state, text))
        return len(text)

    def _follow(self, marker: str) -> int:
        target = self._markers[marker]
        reused = target.length if isinstance(target, ReuseSuffix) else 0
        state = target.state if isinstance(target, ReuseSuffix) else target
        assert isinstance(state, State)
        self.read.append((state, ""))
        self._look_for(state)
        return reused

    def _in_string(self) -> bool:
        return False

    def feed(self, text: str) -> None:
        self._read(text)

    def feed_token(self, marker: str, text: str) -> None:
        self._on_token(marker, text)

    def end(self) -> list[tuple[State, str]]:
        self._flush()
        return self.read

    @property
    def held(self) -> str:
        return self._held


OUTPUT = "a<b<name>f{1}<end>c<nd>e<na"
READ = [
    (State.CONTENT, "a<b"),
    (State.NAME, "f"),
    (State.ARGUMENTS, "{1}"),
    (State.CONTENT, "c"),
    (State.IGNORED, "d"),
    (State.CONTENT, "e"),
    (State.IGNORED, "a"),
]


@given(st.sets(st.integers(1, len(OUTPUT) - 1)))
def test_any_cut_reads_the_same(cuts: set[int]) -> None:
    lexer = Recorder({})
    for start, end in itertools.pairwise([0, *sorted(cuts), len(OUTPUT)]):
        lexer.feed(OUTPUT[start:end])
        assert len(lexer.held) < len("<name>")
    assert lexer.end() == READ


def test_the_beginning_of_a_marker_waits() -> None:
    lexer = Recorder({})
    lexer.feed("a<nam")
    assert lexer.held == "<nam"
    lexer.feed("e>")
    assert lexer.read == [(State.CONTENT, "a"), (State.NAME, "")]


@pytest.mark.parametrize("shown", ["<name>", ""], ids=["shown", "hidden"])
def test_a_marker_token_counts_shown_or_hidden(shown: str) -> None:
    lexer = Recorder(TOKENS)
    lexer.feed("a<")
    lexer.feed_token("<name>", shown)
    lexer.feed("f")
    assert lexer.end() == [(State.CONTENT, "a<"), (State.NAME, "f")]


def test_the_text_of_a_marker_token_is_only_text() -> None:
    lexer = Recorder(TOKENS)
    lexer.feed("<end>")
    assert lexer.end() == [(State.CONTENT, "<end>")]


def test_a_marker_token_without_meaning_shows_inside_a_call_only() -> None:
    lexer = Recorder(TOKENS)
    lexer.feed_token("<end>", "")
    lexer.feed_token("<name>", "")
    lexer.feed_token("<end>", "")
    assert lexer.end() == [(State.NAME, "<end>")]
