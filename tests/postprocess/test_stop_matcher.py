import itertools
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from backedge.postprocess.stop_strings import (
    KEPT_CHARACTERS,
    KEPT_STOPS,
    Piece,
    StopStringFilter,
    StopStrings,
    stop_strings,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st


@dataclass
class Case:
    id: str
    stops: list[str]
    text: str
    passed: str
    matched: str | None
    include: bool = False
    armed_from: int = 0


CASES = [
    Case("no match", ["END"], "all of it", "all of it", None),
    Case("match", ["END"], "some END more", "some ", "END"),
    Case("included", ["END"], "some END more", "some END", "END", include=True),
    Case("one character", ["!"], "hi! there", "hi", "!"),
    Case("all of the text", ["END"], "END", "", "END"),
    Case("earliest to be complete wins", ["re", "he"], "there", "t", "he"),
    Case("the first of the list wins a tie", ["e", "he"], "the", "th", "e"),
    Case("the first of the list wins a tie, the long one", ["he", "e"], "the", "t", "he"),
    Case("one twice", ["END", "END"], "an END", "an ", "END"),
    Case("one twice, its first place counts", ["b", "ab", "b"], "xab", "xa", "b"),
    Case("one within another wins", ["abcd", "bc"], "xabcd", "xa", "bc"),
    Case("one that begins another wins", ["abcd", "ab"], "xabcd", "x", "ab"),
    Case("a prefix that goes on otherwise", ["aab"], "aaab", "a", "aab"),
    Case("a prefix that goes on as another's", ["abcabd", "bcabe"], "abcabe", "a", "bcabe"),
    Case(
        "long, with spaces",
        [" zeta eta theta"],
        "a zeta eta zeta eta theta!",
        "a zeta eta",
        " zeta eta theta",
    ),
    Case("held back at the end", ["END"], "some EN", "some EN", None),
    Case("overlapping stops", ["abc", "bcd", "cd"], "xabcd", "x", "abc"),
    Case("not before it is min_tokens_reached", ["b"], "abcb", "abc", "b", armed_from=2),
    Case("begun before it is min_tokens_reached", ["bc"], "abcd", "a", "bc", armed_from=2),
    Case(
        "complete before it is min_tokens_reached, and goes on",
        ["ab", "abc"],
        "xabcd",
        "x",
        "abc",
        armed_from=3,
    ),
    Case(
        "complete before it is min_tokens_reached, and another goes on",
        ["xab", "bc"],
        "xabcd",
        "xa",
        "bc",
        armed_from=3,
    ),
    Case(
        "characters that patterns give a meaning", ["^]", "-[", "\\d"], "5 - [^] \\d", "5 - [", "^]"
    ),
    Case("emoji", ["👋"], "hi 👋🏽!", "hi ", "👋"),
]


def cut_pieces(text: str, cuts: set[int], armed_from: int) -> list[tuple[str, int]]:
    """Cut `text` also where min_tokens are reached; return each piece with its position."""
    edges = sorted(
        {0, len(text), min(armed_from, len(text)), *(cut for cut in cuts if cut < len(text))}
    )
    return [(text[start:end], start) for start, end in itertools.pairwise(edges)]


def run(case: Case, cuts: set[int], *, splits: bool) -> tuple[str, str | None]:
    gate = StopStringFilter(case.stops, include=case.include, splits=splits)
    passed = ""
    for piece, start in cut_pieces(case.text, cuts, case.armed_from):
        passed += "".join(
            text for text, _ in gate.feed(piece, start, min_tokens_reached=start >= case.armed_from)
        )
        if gate.matched is not None:
            return passed, gate.matched
    return passed + "".join(text for text, _ in gate.flush()), None


@pytest.mark.parametrize("splits", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@given(cuts=st.sets(st.integers(1, 40)))
def test_every_cut_gives_the_same(case, splits, cuts):
    assert run(case, cuts, splits=splits) == (case.passed, case.matched)


def first_complete(stops: list[str], text: str, armed_from: int) -> tuple[int, str | None]:
    """Return where the first stop string is complete, by trying every end and every stop."""
    for end in range(armed_from + 1, len(text) + 1):
        for stop in stops:
            if text[:end].endswith(stop):
                return end, stop
    return len(text), None


def longest_open_end(stops: list[str], text: str) -> int:
    """Return the length of the longest suffix of `text` that a stop string continues."""
    lengths = range(len(text), 0, -1)
    return next(
        (n for n in lengths if any(len(stop) > n and stop.startswith(text[-n:]) for stop in stops)),
        0,
    )


def whole_pieces(pieces: list[tuple[str, int]], free: int) -> int:
    """Return how many of the first `free` characters stand in pieces that are all among them."""
    return max(
        (start + len(text) for text, start in pieces if start + len(text) <= free), default=0
    )


STOPS = st.one_of(
    st.lists(st.text("ab", min_size=1, max_size=6), min_size=1, max_size=6),
    st.lists(st.text("ab\n^]-", min_size=1, max_size=3), min_size=1, max_size=12),
    # The beginnings and ends of one string: the most links there can be.
    st.text("ab", min_size=2, max_size=9).map(
        lambda text: [text[start:] + "c" for start in range(len(text))]
    ),
    st.text("ab", min_size=2, max_size=9).map(
        lambda text: [text[:end] for end in range(1, len(text))]
    ),
)


@settings(max_examples=500)
@given(
    stops=STOPS,
    text=st.one_of(st.text("ab", max_size=30), st.text("abc\n^]-", max_size=30)),
    cuts=st.sets(st.integers(1, 30)),
    armed_from=st.integers(0, 30),
    include=st.booleans(),
    splits=st.booleans(),
)
@example(["aab", "b"], "abaab", {1, 2, 3, 4}, 2, False, True)
def test_equals_a_search_of_the_whole(stops, text, cuts, armed_from, include, splits):
    end, matched = first_complete(stops, text, armed_from)
    gate = StopStringFilter(stops, include=include, splits=splits)
    pieces = cut_pieces(text, cuts, armed_from)
    passed: list[Piece] = []
    for piece, start in pieces:
        passed += gate.feed(piece, start, min_tokens_reached=start >= armed_from)
        so_far = text[: start + len(piece)]
        if matched is not None and end <= len(so_far):
            break
        assert gate.matched is None
        free = len(so_far) - longest_open_end(stops, so_far)
        assert len(joined(passed)) == (free if splits else whole_pieces(pieces, free))
    assert gate.matched == matched
    if matched is None:
        passed += gate.flush()
    expected = text if matched is None else text[: end if include else end - len(matched)]
    assert joined(passed) == expected
    assert_with_their_tokens(passed, pieces, splits=splits, cut=matched is not None)


def joined(pieces: Sequence[Piece]) -> str:
    return "".join(text for text, _ in pieces)


def assert_with_their_tokens(
    passed: list[Piece], pieces: list[tuple[str, int]], *, splits: bool, cut: bool
) -> None:
    by_token = [
        (joined(list(parts)), token_id)
        for token_id, parts in itertools.groupby(passed, key=lambda part: part[1])
    ]
    whole = pieces[: len(by_token)]
    if cut and by_token:
        assert whole[-1][0].startswith(by_token[-1][0])
        whole[-1] = by_token[-1][0], whole[-1][1]
    assert by_token == whole
    assert splits or len(passed) == len(by_token)


@given(
    stops=STOPS,
    first=st.text("ab", max_size=12),
    second=st.text("ab", max_size=12),
    splits=st.booleans(),
)
def test_a_flush_starts_anew(stops, first, second, splits):
    gate = StopStringFilter(stops, include=False, splits=splits)
    assert joined(gate.feed(first, 1, min_tokens_reached=False) + gate.flush()) == first
    fresh = StopStringFilter(stops, include=False, splits=splits)
    assert gate.feed(second, 2) == fresh.feed(second, 2)
    assert gate.matched == fresh.matched
    assert gate.flush() == fresh.flush()


def test_pieces_stay_whole_where_parsers_need_it():
    gate = StopStringFilter(["END"], include=False, splits=False)
    assert gate.feed("so E", 1) == []
    assert gate.feed("x", 2) == [("so E", 1), ("x", 2)]


def test_pieces_without_text_keep_their_place():
    gate = StopStringFilter(["END"], include=False, splits=True)
    assert gate.feed("", 1) == [("", 1)]
    assert gate.feed("so E", 2) == [("so ", 2)]
    assert gate.feed("", 3) == []
    assert gate.feed("x", 4) == [("E", 2), ("", 3), ("x", 4)]


def test_nothing_passes_behind_a_match():
    gate = StopStringFilter(["END"], include=False, splits=True)
    assert gate.feed("so END, or not", 1) == [("so ", 1)]
    assert gate.feed(" at all", 2) == []
    assert gate.flush() == []
    assert gate.matched == "END"


def test_no_stops_let_everything_pass():
    gate = StopStringFilter([], include=False, splits=True)
    assert gate.feed("text", 1) == [("text", 1)]
    assert gate.flush() == []


RANDOM_LETTERS = "".join("abc"[(position * position // 7) % 3] for position in range(400))

WORK = [
    ("one long, its beginning over and over", ["a" * 3000 + "b"], "a" * 20_000),
    ("one long, and always a character short of it", ["a" * 300 + "b"], ("a" * 300 + "c") * 60),
    ("one long, nearly periodic", ["aab" * 500 + "c"], "aab" * 6000),
    ("many, none begins", [f"{number:020}" for number in range(1000)], "word " * 4000),
    ("many, all begin alike", ["a" * 50 + f"{number:04}" for number in range(1000)], "a" * 20_000),
    (
        "each an end of one text",
        [RANDOM_LETTERS[start:] + "!" for start in range(400)],
        RANDOM_LETTERS * 50,
    ),
    ("each a power", ["a" * length + "b" for length in range(1, 200)], ("a" * 199 + "c") * 100),
]


@pytest.mark.parametrize(("stops", "text"), [row[1:] for row in WORK], ids=[row[0] for row in WORK])
def test_work_is_linear_in_the_text(stops, text, monkeypatch):
    steps = 0
    child = StopStrings.child

    def counted(self: StopStrings, state: int, char: str) -> int | None:
        nonlocal steps
        steps += 1
        return child(self, state, char)

    monkeypatch.setattr(StopStrings, "child", counted)
    gate = StopStringFilter(stops, include=False, splits=True)
    halves = text[: len(text) // 2], text[len(text) // 2 :]
    for half, once in zip(halves, (sum(map(len, stops)), 0), strict=True):
        steps = 0
        for start in range(0, len(half), 4):
            gate.feed(half[start : start + 4], start)
        # A step goes on by a character or follows a link, and what the half before
        # it has left may be as long as the longest stop string.
        assert steps <= 2 * (len(half) + once) + max(map(len, stops))
    assert gate.matched is None


def test_the_trie_stores_where_stops_part():
    stops = ["a" * 9000 + f"{number:04}" for number in range(1000)]
    tracemalloc.start()
    trie = StopStrings(stops)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(trie.ends) == 1000
    assert taken < 1_000_000 < sum(map(len, stops))


def test_short_lists_are_kept_and_long_ones_are_not():
    assert stop_strings(["END", "###"]) is stop_strings(["END", "###"])
    assert stop_strings(["END", "###"]) is not stop_strings(["###", "END"])
    for stops in (["a" * (KEPT_CHARACTERS + 1)], [f"{number}" for number in range(KEPT_STOPS + 1)]):
        assert stop_strings(stops) is not stop_strings(stops)
