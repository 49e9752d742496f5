"""Reasoning in place of content that is missing, for requests that ask for it."""

from __future__ import annotations

import pytest
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.linear_parsers import NONEMPTY, Vocabulary
from backedge.parsers.parser_lookup import linear_parsers
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.driver import run
from tests.parsers.event_outcome import join_outcome

TOOLS = [{"type": "function", "function": {"name": "f"}}]
CALL = '<tool_call>{"name": "f"}</tool_call>'


def read(pieces: list[str], flag: object = True, *, cut: bool = False) -> Outcome:
    parsers = linear_parsers(ParserNames("hermes", "nemotron_v3"), Vocabulary())
    request = ParserRequest(tools=TOOLS, tool_choice="auto", chat_template_kwargs={NONEMPTY: flag})
    return join_outcome(run(parsers(request, []), pieces, cut=cut))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("So.", Outcome("So.", "So.")),
        ("So.</think>", Outcome("So.", "So.")),
        ("So.</think>Yes.", Outcome("So.", "Yes.")),
        (f"So.</think>{CALL}", Outcome("So.", None, (Call("f", {}),))),
        ("</think>", Outcome()),
        ("", Outcome()),
    ],
)
def test_the_answer(output: str, expected: Outcome) -> None:
    assert read([output]) == expected
    assert read(list(output)) == expected


@pytest.mark.parametrize("flag", [False, None, "true"])
def test_only_for_requests_that_ask(flag: object) -> None:
    assert read(["So."], flag) == Outcome("So.")


def test_a_thought_that_a_limit_cuts() -> None:
    assert read(["So"], cut=True) == Outcome("So", "So")


@given(st.text("ab <>/think", max_size=30), st.booleans())
def test_content_is_never_empty_where_there_is_reasoning(output: str, cut: bool) -> None:
    outcome = read(list(output), cut=cut)
    assert outcome.content or outcome.calls or not outcome.reasoning
