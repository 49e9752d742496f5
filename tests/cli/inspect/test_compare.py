"""The first difference of two outputs that come in different pieces."""

from __future__ import annotations

import pytest
from backedge.cli.inspect.compare import NOTHING, find_difference
from backedge.cli.inspect.trace import Step
from backedge.postprocess.messages import ChoiceDelta, Delta, FunctionDelta, ToolCallDelta
from hypothesis import given
from hypothesis import strategies as st


def step(*deltas: ChoiceDelta) -> Step:
    return Step(token_id=1, chunk=0, at_ms=0.0, deltas=list(deltas))


def content(text: str) -> Step:
    return step(ChoiceDelta(0, Delta(content=text)))


def reasoning(text: str) -> Step:
    return step(ChoiceDelta(0, Delta(reasoning_content=text)))


def call(name: str | None, arguments: str, call_id: str | None = None) -> Step:
    part = ToolCallDelta(0, FunctionDelta(arguments, name), call_id)
    return step(ChoiceDelta(0, Delta(tool_calls=[part])))


def finish(reason: str) -> Step:
    return step(ChoiceDelta(0, Delta(), reason))


# By name: what each side gives, token by token; where they differ, and what each has there.
CASES: dict[str, tuple[list[Step], list[Step], object]] = {
    "equal": ([content("ab")], [content("ab")], None),
    "later": ([content("ab"), step()], [step(), content("ab")], None),
    "in pieces": ([content("a"), content("b")], [step(), content("ab")], None),
    "the lead changes": (
        [content("ab"), content("c"), content("d")],
        [content("a"), content("bcd"), step()],
        None,
    ),
    "another id of a call": ([call("f", "{}", "x")], [call("f", "{}", "y")], None),
    "another letter": (
        [content("a"), content("b")],
        [content("a"), content("c")],
        (1, 'content "b"', 'content "c"'),
    ),
    "a letter later": (
        [content("abc"), step()],
        [content("a"), content("x")],
        (1, 'content "bc"', 'content "x"'),
    ),
    "another kind": ([content("a")], [reasoning("a")], (0, 'content "a"', 'reasoning "a"')),
    "another name": ([call("f", "")], [call("g", "")], (0, "call 0 f", "call 0 g")),
    "other arguments": (
        [call("f", "1")],
        [call("f", "2")],
        (0, 'arguments of call 0 "1"', 'arguments of call 0 "2"'),
    ),
    "another end": (
        [finish("stop")],
        [finish("tool_calls")],
        (0, "finish stop", "finish tool_calls"),
    ),
    "missing at the end": (
        [step(), content("a")],
        [step(), step()],
        (1, 'content "a"', NOTHING),
    ),
    "more at the end": ([step()], [content("a")], (0, NOTHING, 'content "a"')),
    "pieces of what is missing": (
        [content("a"), content("b"), finish("stop")],
        [step(), step(), finish("stop")],
        (2, 'content "ab"', "finish stop"),
    ),
    "nothing": ([], [], None),
}


@pytest.mark.parametrize(("left", "right", "expected"), CASES.values(), ids=CASES)
def test_finds_the_first_difference(left: list[Step], right: list[Step], expected: object) -> None:
    found = find_difference(left, right)
    assert (found and (found.step, found.left, found.right)) == expected


TEXTS = st.lists(st.text("ab", max_size=3), min_size=1, max_size=8)


@given(left=TEXTS, right=TEXTS)
def test_finds_one_exactly_if_the_texts_differ(left: list[str], right: list[str]) -> None:
    length = max(len(left), len(right))
    ours, theirs = (
        [content(text) for text in texts] + [step()] * (length - len(texts))
        for texts in (left, right)
    )
    found = find_difference(ours, theirs)
    assert (found is None) == ("".join(left) == "".join(right))
    if found is not None:
        one, other = ("".join(texts[: found.step]) for texts in (left, right))
        assert one.startswith(other) or other.startswith(one)
