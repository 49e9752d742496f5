"""Text for frontends that parse it themselves: cut at markers, each token with its text."""

import pytest
from backedge.parsers.base import ParserRequest
from backedge.postprocess.raw_text import RawText, RawTexts
from hypothesis import given
from hypothesis import strategies as st

MARKERS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]


def read(tokens, markers=MARKERS, *, whole=True):
    """Return the texts of the runs, with their numbers of tokens."""
    raw = RawText(markers)
    for token in tokens:
        raw.feed(token, (1,))
    return [(run.text, run.tokens) for run in raw.take(whole=whole)]


CASES = [
    (["a", " b", " c"], [("a b c", 3)]),
    (["a", "<think>", "b", "</think>", "c", "d"],
     [("a", 1), ("<think>", 1), ("b", 1), ("</think>", 1), ("cd", 2)]),
    (["a", "<", "th", "ink", ">", "b"],
     [("a", 1), ("<", 1), ("th", 1), ("ink", 1), (">", 1), ("b", 1)]),
    (["a", "<", "b", ">", "c"], [("a<b>c", 5)]),
    (["a <", "tool", "x"], [("a <toolx", 3)]),
    (["x</th", "ink>y", "z"], [("x</th", 1), ("ink>y", 1), ("z", 1)]),
    (["<think></think>", "a"], [("<think></think>", 1), ("a", 1)]),
    (["<think>", "</think>"], [("<think>", 1), ("</think>", 1)]),
    (["a", "", "", "b"], [("ab", 4)]),
    (["a", "<to"], [("a", 1), ("<to", 1)]),
    (["a", ""], [("a", 1)]),
]  # fmt: skip


@pytest.mark.parametrize(("tokens", "runs"), CASES)
def test_markers_stand_alone_and_other_text_does_not(tokens, runs):
    assert read(tokens) == runs


@pytest.mark.parametrize(
    ("tokens", "runs"),
    [
        (["a", "b", "<", "to", "ol", "_call", ">", "c", "d"],
         [("ab", 2), ("<", 1), ("to", 1), ("ol", 1), ("_call", 1), (">", 1), ("cd", 2)]),
        (["<", "to", "ols", "{", "a", "b"], [("<", 1), ("tools", 2), ("{", 1), ("ab", 2)]),
    ],
)  # fmt: skip
def test_a_sign_does_not_end_the_search_for_the_marker_that_begins_with_it(tokens, runs):
    assert read(tokens, [*"{<>", *MARKERS]) == runs


def test_what_may_be_a_marker_waits():
    raw = RawText(MARKERS)
    assert raw.feed("a", (1,))
    assert not raw.feed("<to", (2,)), "nothing to send yet"
    assert [run.text for run in raw.take(whole=False)] == ["a"]
    assert [run.text for run in raw.take(whole=True)] == ["<to"]
    assert raw.feed("ol_call>", (3,))
    assert [run.text for run in raw.take(whole=False)] == ["ol_call>"]


@pytest.mark.parametrize(("markers", "texts"), [([], ["abc"]), (None, ["a", "b", "c"])])
def test_without_markers_all_is_one_run_and_of_unknown_formats_each_token(markers, texts):
    assert [text for text, _ in read(["a", "b", "c"], markers)] == texts


@given(st.lists(st.sampled_from(["<", "think", ">", "</", "think>", "a", "", "tool_call", "é"])))
def test_no_text_is_lost_and_no_marker_has_text_of_another_token_beside_it(tokens):
    runs = read(tokens)
    assert "".join(text for text, _ in runs) == "".join(tokens)
    with_text = max((number for number, token in enumerate(tokens, 1) if token), default=0)
    assert sum(count for _, count in runs) == with_text, "the last without text wait for it"
    for text, count in runs:
        assert count == 1 or "" in tokens or not any(marker in text for marker in MARKERS)


def test_each_choice_has_its_own():
    texts = RawTexts(MARKERS)
    first, second = (texts(ParserRequest(), ()) for _ in range(2))
    first.feed("a", (1,))
    assert texts.choices == [first, second]
    assert [choice.take(whole=True) != [] for choice in texts.choices] == [True, False]
    assert not texts.shows_special_tokens(ParserRequest())
