"""Random answers: exact meaning, at any cut; what is truncated or damaged is never invented.

`FUZZ_EXAMPLES=2000 pytest tests/parsers/test_generated.py` runs for minutes; CI runs fewer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from backedge.parsers.events import (
    Content,
    Event,
    Reasoning,
    ToolCallArguments,
    ToolCallCut,
    ToolCallStarted,
)
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.samples.sample import Call
from tests.parsers.event_outcome import join_outcome
from tests.parsers.families import FAMILIES
from tests.parsers.fuzzing import fuzz
from tests.parsers.generated import Answer, Token, answers, by_character, feed, together

every_family = pytest.mark.parametrize(
    "name", [name for name, family in FAMILIES.items() if family.write is not None]
)


def arguments_of(events: Sequence[Event]) -> list[str]:
    """Return the arguments of each call."""
    texts: list[str] = []
    for event in events:
        if isinstance(event, ToolCallStarted):
            texts.append("")
        elif isinstance(event, ToolCallArguments):
            texts[event.index] += event.text
    return texts


def check_json(events: Sequence[Event]) -> None:
    """Check that the arguments of each call are a JSON object, or reported as open."""
    last = events[-1] if events else None
    cut = last.index if isinstance(last, ToolCallCut) else None
    for index, text in enumerate(arguments_of(events)):
        if index != cut:
            assert isinstance(json.loads(text), dict)


@every_family
@fuzz(12)
@given(data=st.data())
def test_exact_meaning(name: str, data: st.DataObject) -> None:
    answer: Answer = data.draw(answers(name))
    events = feed(name, answer.tokens)
    outcome = join_outcome(events)
    assert outcome.calls == tuple(Call(*call) for call in answer.calls)
    assert (outcome.content or "").strip() == answer.content
    assert outcome.reasoning is None
    assert feed(name, by_character(answer.tokens)) == events
    assert feed(name, together(answer.tokens)) == events


@every_family
@fuzz(12)
@given(data=st.data())
def test_truncated_at_every_token(name: str, data: st.DataObject) -> None:
    answer: Answer = data.draw(answers(name))
    whole = feed(name, answer.tokens)
    names = [event.name for event in whole if isinstance(event, ToolCallStarted)]
    content = "".join(event.text for event in whole if isinstance(event, Content))
    arguments = arguments_of(whole)
    for end in range(len(answer.tokens)):
        for cut in (True, False):
            events = feed(name, answer.tokens[:end], cut=cut)
            if not cut:
                check_json(events)
            started = [event.name for event in events if isinstance(event, ToolCallStarted)]
            assert started == names[: len(started)]
            for part, full in zip(arguments_of(events), arguments, strict=False):
                # On stop a call ends behind any of its arguments.
                assert full.startswith(part if cut else part.removesuffix("}"))
            if cut and name != "xlam":  # its calls may stand in a code block, which begins as text
                shown = "".join(event.text for event in events if isinstance(event, Content))
                assert content.rstrip().startswith(shown.rstrip(" \n`"))


def damaged(tokens: Sequence[Token]) -> st.SearchStrategy[list[Token]]:
    """Return the tokens with one left out, doubled, or swapped with the next."""
    count = len(tokens)
    return st.tuples(st.integers(0, max(0, count - 1)), st.sampled_from("012")).map(
        lambda drawn: {
            "0": [*tokens[: drawn[0]], *tokens[drawn[0] + 1 :]],
            "1": [*tokens[: drawn[0] + 1], *tokens[drawn[0] :]],
            "2": [
                *tokens[: drawn[0]],
                *reversed(tokens[drawn[0] : drawn[0] + 2]),
                *tokens[drawn[0] + 2 :],
            ],
        }[drawn[1]]
    )


@every_family
@fuzz(12)
@given(data=st.data())
def test_damaged(name: str, data: st.DataObject) -> None:
    answer: Answer = data.draw(answers(name))
    tokens = data.draw(damaged(answer.tokens))
    events = feed(name, tokens)
    check_json(events)
    assert feed(name, by_character(tokens)) == events
    assert feed(name, together(tokens)) == events
    assert not any(isinstance(event, Reasoning) for event in events)
