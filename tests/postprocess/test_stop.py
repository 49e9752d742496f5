import itertools
from dataclasses import dataclass, field

import pytest
from backedge.postprocess.stop import StopGate
from hypothesis import given
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
    extra: dict[str, object] = field(default_factory=dict)


CASES = [
    Case("no match", ["END"], "all of it", "all of it", None),
    Case("match", ["END"], "some END more", "some ", "END"),
    Case("included", ["END"], "some END more", "some END", "END", include=True),
    Case("earliest to be complete wins", ["re", "he"], "there", "t", "he"),
    Case("the first of the list wins a tie", ["e", "he"], "the", "th", "e"),
    Case("a prefix that goes on otherwise", ["aab"], "aaab", "a", "aab"),
    Case("long, with spaces", [" zeta eta theta"], "a zeta eta zeta eta theta!", "a zeta eta", " zeta eta theta"),
    Case("held back at the end", ["END"], "some EN", "some EN", None),
    Case("overlapping stops", ["abc", "bcd", "cd"], "xabcd", "x", "abc"),
    Case("not before it is armed", ["b"], "abcb", "abc", "b", armed_from=2),
    Case("begun before it is armed", ["bc"], "abcd", "a", "bc", armed_from=2),
    Case("emoji", ["👋"], "hi 👋🏽!", "hi ", "👋"),
]


def run(case: Case, cuts: set[int], *, splits: bool) -> tuple[str, str | None]:
    gate = StopGate(case.stops, include=case.include, splits=splits)
    passed, position = "", 0
    edges = sorted({0, len(case.text), case.armed_from, *(c for c in cuts if c < len(case.text))})
    for start, end in itertools.pairwise(edges):
        for text, token_id in gate.feed(case.text[start:end], start, armed=start >= case.armed_from):
            assert case.text.startswith(text, token_id or 0) or splits
            passed += text
        position = end
        if gate.matched is not None:
            return passed, gate.matched
    assert position == len(case.text)
    return passed + "".join(text for text, _ in gate.flush()), None


@pytest.mark.parametrize("splits", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@given(cuts=st.sets(st.integers(1, 40)))
def test_every_cut_gives_the_same(case, splits, cuts):
    assert run(case, cuts, splits=splits) == (case.passed, case.matched)


@given(
    stops=st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=4),
    text=st.text("abc", max_size=30),
    cuts=st.sets(st.integers(1, 30)),
)
def test_equals_a_search_of_the_whole(stops, text, cuts):
    ends = [(text.find(stop) + len(stop), stop) for stop in stops if stop in text]
    end, matched = min(ends, key=lambda found: found[0], default=(0, None))
    passed = text if matched is None else text[: end - len(matched)]
    assert run(Case("", stops, text, "", None), cuts, splits=True) == (passed, matched)


@given(text=st.text("abEN ", max_size=30))
def test_holds_back_only_what_could_become_a_stop(text):
    gate = StopGate(["END"], include=False, splits=True)
    passed = "".join(piece for position, char in enumerate(text) for piece, _ in gate.feed(char, position))
    held = text[len(passed) :]
    assert held in ("", "E", "EN")
    assert text.endswith(held)


def test_pieces_stay_whole_where_parsers_need_it():
    gate = StopGate(["END"], include=False, splits=False)
    assert gate.feed("so E", 1) == []
    assert gate.feed("x", 2) == [("so E", 1), ("x", 2)]
