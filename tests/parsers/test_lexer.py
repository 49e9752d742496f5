"""The lexer by itself: markers found as text and as tokens, held back, read again."""

from __future__ import annotations

import itertools

import pytest
from backedge.parsers.arguments.incremental_grammar import IncrementalGrammar
from backedge.parsers.compiled_format import compile_format
from backedge.parsers.format import Format, ReuseSuffix, State, target_state
from backedge.parsers.held_back import HeldText
from backedge.parsers.lexer import Lexer, Reader
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

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


class Recorder(Reader):
    """Follows the table, and notes the text of each state."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self._markers = TABLES[bool(vocabulary)].markers
        self.lexer = Lexer(TABLES[bool(vocabulary)], self)
        self.read: list[tuple[State, str]] = []
        self._state = State.CONTENT
        self.lexer.look_for(State.CONTENT)

    @override
    def enter(self, state: State) -> None:
        self._state = state
        self.read.append((state, ""))
        self.lexer.look_for(state)

    @override
    def take_text(self, text: str) -> int:
        before = self.read.pop()[1] if self.read and self.read[-1][0] is self._state else ""
        self.read.append((self._state, before + text))
        return len(text)

    @override
    def read_grammar(self, grammar: IncrementalGrammar, text: str, position: int) -> int:
        raise AssertionError(f"no state has {grammar}")

    @override
    def follow(self, marker: str) -> int:
        target = self._markers[self._state][marker]
        state = target_state(target)
        assert isinstance(state, State)
        self.enter(state)
        return target.length if isinstance(target, ReuseSuffix) else 0

    @override
    def end_value(self) -> None:
        raise AssertionError("no state has values")

    def end(self) -> list[tuple[State, str]]:
        self.lexer.flush()
        return self.read


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
    recorder = Recorder({})
    for start, end in itertools.pairwise([0, *sorted(cuts), len(OUTPUT)]):
        recorder.lexer.feed(OUTPUT[start:end], ())
        assert len(recorder.lexer.held) < len("<name>")
    assert recorder.end() == READ


def test_the_beginning_of_a_marker_waits() -> None:
    recorder = Recorder({})
    recorder.lexer.feed("a<nam", ())
    assert recorder.lexer.held_text == [HeldText("possible marker", "<nam", 4)]
    recorder.lexer.feed("e>", ())
    assert recorder.read == [(State.CONTENT, "a"), (State.NAME, "")]


def test_text_given_back_is_read_again_before_the_rest() -> None:
    recorder = Recorder({})
    recorder.lexer.give_back("a<na")
    recorder.lexer.read_again("me>f")
    assert recorder.end() == [(State.CONTENT, "a"), (State.NAME, "f")]


@pytest.mark.parametrize("shown", ["<name>", ""], ids=["shown", "hidden"])
def test_a_marker_token_counts_shown_or_hidden(shown: str) -> None:
    recorder = Recorder(TOKENS)
    recorder.lexer.feed("a<", ())
    recorder.lexer.feed(shown, [TOKENS["<name>"]])
    recorder.lexer.feed("f", ())
    assert recorder.end() == [(State.CONTENT, "a<"), (State.NAME, "f")]


def test_the_text_of_a_marker_token_is_only_text() -> None:
    recorder = Recorder(TOKENS)
    recorder.lexer.feed("<end>", ())
    assert recorder.end() == [(State.CONTENT, "<end>")]


def test_a_marker_token_without_meaning_shows_inside_a_call_only() -> None:
    recorder = Recorder(TOKENS)
    for marker in ("<end>", "<name>", "<end>"):
        recorder.lexer.feed("", [TOKENS[marker]])
    assert recorder.end() == [(State.NAME, "<end>")]


def test_a_marker_token_must_be_fed_alone() -> None:
    with pytest.raises(ValueError, match=r"the marker token 1 \('<name>'\) must be fed alone"):
        Recorder(TOKENS).lexer.feed("<name>a", [TOKENS["<name>"], 9])
