"""The first difference of two answers; how they were cut is none."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from backedge.postprocess import ChoiceDelta
from backedge.postprocess.messages import Delta, FunctionDelta, ToolCallDelta
from backedge.recording.comparison import NOTHING, Difference, Given, find_difference, split_parts
from hypothesis import given, settings
from hypothesis import strategies as st


def content(text: str) -> ChoiceDelta:
    return ChoiceDelta(0, Delta(content=text))


def reasoning(text: str) -> ChoiceDelta:
    return ChoiceDelta(0, Delta(reasoning_content=text))


def call(index: int, name: str | None, arguments: str, call_id: str = "id") -> ChoiceDelta:
    function = FunctionDelta(arguments, name)
    return ChoiceDelta(0, Delta(tool_calls=[ToolCallDelta(index, function, call_id)]))


def finish(reason: str, stop: str | None = None) -> ChoiceDelta:
    return ChoiceDelta(0, finish_reason=reason, stop_reason=stop)


def find(
    left: Sequence[ChoiceDelta],
    right: Sequence[ChoiceDelta],
    declared: set[str] | None = None,
    *,
    cut: bool = False,
) -> Difference | None:
    sides = [
        split_parts([Given(n, [delta]) for n, delta in enumerate(side, 1)], 0, declared)
        for side in (left, right)
    ]
    return find_difference(sides[0], sides[1], 0, left_is_cut=cut)


ANSWER = [
    reasoning("Let me see."),
    content("I will look."),
    call(0, "find", '{"a": '),
    call(0, None, "1}"),
    call(1, "now", "{}"),
    finish("tool_calls"),
]


def test_cuts_and_ids_are_no_difference() -> None:
    other = [
        *(reasoning(letter) for letter in "Let me see."),
        *(content(letter) for letter in "I will look."),
        call(0, "find", ""),
        *(call(0, None, letter, "other") for letter in '{"a": 1}'),
        call(1, "now", "{", "other"),
        call(1, None, "}"),
        finish("tool_calls"),
    ]
    assert find(ANSWER, other) is None
    assert find(other, ANSWER) is None


# What is changed: the token where it shows, and both sides there.
CHANGES = {
    "a character": (1, content("I will cook."), 2, "look.", "cook."),
    "a kind": (0, content("Let me see."), 1, "Let me see.", "Let me see.I will look."),
    "a name": (2, call(0, "fund", '{"a": '), 3, "ind", "und"),
    "arguments": (3, call(0, None, "2}"), 4, "1}", "2}"),
    "a number of a call": (4, call(2, "now", "{}"), 5, "now", "now"),
    "the finish": (5, finish("stop"), 6, "tool_calls", "stop"),
    "what stopped it": (5, finish("tool_calls", "END"), 6, "", " (END)"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_first_difference(change: tuple[int, ChoiceDelta, int, str, str]) -> None:
    position, delta, token, left, right = change
    found = find(ANSWER, [*ANSWER[:position], delta, *ANSWER[position + 1 :]])
    assert found is not None
    assert found.token == token
    assert (found.left.text, found.right.text) == (left, right)


def test_a_side_that_ends_has_nothing() -> None:
    found = find(ANSWER, ANSWER[:4])
    assert found is not None
    assert (found.right, found.left.text, found.left.delta) == (NOTHING, "now", ANSWER[4])


@pytest.mark.parametrize("end", range(len(ANSWER)))
def test_a_side_that_may_end_anywhere(end: int) -> None:
    assert find(ANSWER[:end], ANSWER, cut=True) is None
    assert find(ANSWER, ANSWER[:end], cut=True) is not None
    wrong = [*ANSWER[:end], content("?!")]
    assert find(wrong, ANSWER, cut=True) is not None


def test_without_text_only_kinds_names_and_finish_count() -> None:
    other = [reasoning("x"), content("."), call(0, "find", "..."), call(1, "x", "."), ANSWER[5]]
    assert find(other, ANSWER, {"find"}) is None
    found = find(other, ANSWER, {"find", "now"})
    assert found is not None
    assert found.right.text == "now"


def test_other_choices_are_left_out() -> None:
    given = [Given(1, [content("a"), ChoiceDelta(1, Delta(content="b"))])]
    assert [part.text for part in split_parts(given, 1)] == ["b"]


TEXTS = st.lists(
    st.tuples(st.sampled_from([content, reasoning]), st.text("ab", min_size=1, max_size=3)),
    max_size=6,
)


@settings(max_examples=60, deadline=None, database=None)
@given(left=TEXTS, right=TEXTS)
def test_answers_are_equal_if_their_text_is(left, right) -> None:
    def runs(side):
        return [
            (make.__name__, "".join(text for _, text in group))
            for make, group in itertools.groupby(side, key=lambda each: each[0])
        ]

    found = find([make(text) for make, text in left], [make(text) for make, text in right])
    assert (found is None) == (runs(left) == runs(right))
