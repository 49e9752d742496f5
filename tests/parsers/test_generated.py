"""Random answers: exact meaning, at any cut; what is truncated or damaged is never invented.

`FUZZ_EXAMPLES=2000 pytest tests/parsers/test_generated.py` runs for minutes; CI runs fewer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

import pytest
from backedge.parsers.events import (
    Event,
    Reasoning,
)
from backedge.parsers.parser_lookup import reasoning_format, tool_format
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from benchmarks.samples.sample import Call
from tests.parsers.drawn_schemas import without_nullable
from tests.parsers.event_outcome import Shown, join_outcome, read_shown
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import Invocation
from tests.parsers.fuzzing import fuzz
from tests.parsers.generated import DRAWN, Answer, Token, answers, by_character, feed, together

every_family = pytest.mark.parametrize(
    "name", [name for name, family in FAMILIES.items() if family.write is not None]
)


def check_json(events: Sequence[Event]) -> None:
    """Check that the arguments of each call are a JSON object, or reported as open."""
    shown = read_shown(events)
    for index, text in enumerate(shown.arguments):
        if index not in shown.still_open:
            assert isinstance(json.loads(text), dict)


def _with_equal_numbers(text: str) -> str:
    """Return `text` with 1e3 as 1000.0 and -0 as 0.0: JSON does not tell them apart."""
    number = r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
    return re.sub(number, lambda found: repr(float(found[0]) + 0.0), text)


def check_accepted(answer: Answer, calls: Sequence[Call]) -> None:
    """Check that the calls are read as the model wrote them, and as their schemas want them.

    A string `42` and a number 42 look the same in formats without quotes. Where a schema takes
    both, either is right.
    """
    assert [call.name for call in calls] == [name for name, _ in answer.calls]
    invocations: list[Invocation] = []
    for call, (name, arguments) in zip(calls, answer.calls, strict=True):
        assert isinstance(call.arguments, dict)
        invocations.append((name, call.arguments))
        if not name.startswith(DRAWN):
            assert call.arguments == arguments
    assert _with_equal_numbers(answer.written(invocations)) == _with_equal_numbers(
        answer.written(answer.calls)
    )
    for name, arguments in invocations:
        drawn = next(tool for tool in answer.tools if tool["function"]["name"] == name)
        schema = without_nullable(drawn["function"]["parameters"])
        assert Draft202012Validator(schema).is_valid(arguments), (schema, arguments)


@every_family
@fuzz(12)
@given(data=st.data())
def test_exact_meaning(name: str, data: st.DataObject) -> None:
    answer = data.draw(answers(name))
    events = feed(answer, answer.tokens)
    outcome = join_outcome(events)
    check_accepted(answer, outcome.calls)
    assert (outcome.content or "").strip() == answer.content
    assert (outcome.reasoning or "").strip() == (answer.reasoning or "")
    assert feed(answer, by_character(answer.tokens)) == events
    assert feed(answer, together(answer.tokens)) == events


@every_family
@fuzz(6)
@given(data=st.data())
def test_truncated_at_every_token(name: str, data: st.DataObject) -> None:
    answer = data.draw(answers(name))
    whole = read_shown(feed(answer, answer.tokens))
    for end in range(len(answer.tokens)):
        for cut in (True, False):
            events = feed(answer, answer.tokens[:end], cut=cut)
            shown = read_shown(events)
            if not cut:
                check_json(events)
                # On stop a call ends behind any of its arguments.
                shown.arguments = [text.removesuffix("}") for text in shown.arguments]
            assert shown.calls_begin(whole)
            if cut and name != "xlam":  # its calls may stand in a code block, which begins as text
                for part, full in zip(texts_of(shown), texts_of(whole), strict=True):
                    assert full.rstrip().startswith(without_half_words(name, part).rstrip(" \n`"))


def texts_of(shown: Shown) -> tuple[str, str]:
    return shown.content, shown.reasoning


def word_markers(name: str) -> set[str]:
    """Return the family's markers that are made of words."""
    formats = tool_format(name), reasoning_format(FAMILIES[name].reasoning_parser or "")
    markers = {
        marker
        for format_ in formats
        if format_ is not None
        for by_marker in format_.states.values()
        for marker in by_marker
    }
    return {marker for marker in markers if marker[:1].isalpha()}


def without_half_words(name: str, shown: str) -> str:
    """Return the text without the beginning of a marker at its end, which may be text as well."""
    halves = {marker[:length] for marker in word_markers(name) for length in range(len(marker))}
    return shown.removesuffix(
        max((half for half in halves if shown.endswith(half)), key=len, default="")
    )


def damaged(tokens: Sequence[Token]) -> st.SearchStrategy[list[Token]]:
    """Return the tokens with one left out, doubled, or swapped with the next."""
    changes: dict[str, Callable[[int], Sequence[Token]]] = {
        "left out": lambda _: (),
        "doubled": lambda at: (tokens[at], tokens[at]),
        "swapped": lambda at: tokens[at : at + 2][::-1],
    }
    return st.builds(
        lambda at, change: [
            *tokens[:at],
            *changes[change](at),
            *tokens[at + (2 if change == "swapped" else 1) :],
        ],
        st.integers(0, max(0, len(tokens) - 1)),
        st.sampled_from(sorted(changes)),
    )


@every_family
@fuzz(12)
@given(data=st.data())
def test_damaged(name: str, data: st.DataObject) -> None:
    answer = data.draw(answers(name))
    tokens = data.draw(damaged(answer.tokens))
    events = feed(answer, tokens)
    check_json(events)
    assert feed(answer, by_character(tokens)) == events
    assert feed(answer, together(tokens)) == events
    if answer.reasoning is None and name != "beam":  # its calls stand in the thought's channel
        assert not any(isinstance(event, Reasoning) for event in events)
    shown = "".join(getattr(event, "text", "") for event in events)
    # What stands in arguments may no longer be a value there.
    said = f"{answer.reasoning} {answer.content}"
    written = {text for text, _ in tokens}
    assert not [
        word for word in re.findall(r"q\d+q", said) if word in written and word not in shown
    ]
