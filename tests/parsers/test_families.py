"""Every case of every family: whole, by character, by token, at any cut, and beside vLLM's batch parser."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Sequence
from typing import Any

import pytest
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import (
    Event,
    ToolCallArguments,
    ToolCallCut,
    ToolCallStarted,
    join,
)
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers
from backedge.tokenization.detokenizer import DetokenizerOptions, detokenizers, read_vocabulary
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.samples.tokenizers import bpe, encode
from tests.parsers.events import outcome_of
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import TOOLS, Case, Family

ROWS = [
    pytest.param(family, case, id=f"{family.name}-{case.id}")
    for family in FAMILIES.values()
    for case in family.all_cases()
]
every_case = pytest.mark.parametrize(("family", "case"), ROWS)
# No marker of any format is longer, nor is a scalar that waits for its end.
MAX_HELD = 1024


def parser_of(
    family: Family, case: Case, vocabulary: Vocabulary, prompt: Sequence[int] = ()
) -> Any:
    tools = list(TOOLS if case.tools is None else case.tools)
    request = ParserRequest(tools=tools, tool_choice="auto" if tools else "none")
    return linear_parsers(ParserNames(family.tool_parser, family.reasoning_parser), vocabulary)(
        request, prompt
    )


def text_parser_of(family: Family, case: Case) -> Any:
    """Return a parser that knows no marker as a token; the prompt's turn is one token."""
    turn = case.prompt.rpartition("<|im_start|>")[2]
    return parser_of(family, case, Vocabulary(decode=lambda _: turn), [0] if case.prompt else [])


def by_text(family: Family, case: Case, cuts: Collection[int]) -> list[Event]:
    """Return the joined events of a parser that knows no tokens, fed `case` cut at `cuts`."""
    parser = text_parser_of(family, case)
    bounds = [0, *sorted(cuts), len(case.output)]
    events = [
        event
        for start, end in itertools.pairwise(bounds)
        for event in parser.feed(case.output[start:end])
    ]
    return join(events + parser.finish(cut=case.finish == "length"))


def by_token(family: Family, case: Case) -> list[Event]:
    """Return the joined events of a parser that knows its markers as tokens."""
    tokenizer = bpe(family.markers, family.special)
    parser = parser_of(family, case, read_vocabulary(tokenizer), encode(tokenizer, case.prompt))
    detokenizer = detokenizers(tokenizer)(
        DetokenizerOptions(spaces_between_special_tokens=False), ()
    )
    token_ids = encode(tokenizer, case.output)
    events = [
        event
        for token_id in token_ids
        for event in parser.feed(detokenizer.feed(token_id), [token_id])
    ]
    return join(events + parser.finish(cut=case.finish == "length"))


@every_case
def test_the_whole_text(family: Family, case: Case) -> None:
    assert outcome_of(by_text(family, case, ())) == case.expected


@every_case
def test_one_character_at_a_time(family: Family, case: Case) -> None:
    assert by_text(family, case, range(1, len(case.output))) == by_text(family, case, ())


@every_case
def test_one_token_at_a_time(family: Family, case: Case) -> None:
    assert outcome_of(by_token(family, case)) == case.expected


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
@settings(max_examples=120, deadline=None, database=None)
@given(data=st.data())
def test_any_cut(family: Family, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([case for case in family.all_cases() if len(case.output) > 1]))
    cuts = data.draw(st.sets(st.integers(1, len(case.output) - 1), max_size=12))
    assert by_text(family, case, cuts) == by_text(family, case, ())


@every_case
def test_truncated_anywhere(family: Family, case: Case) -> None:
    """What a limit leaves is a beginning of the whole, and what is missing of it is reported."""
    whole = by_text(family, case, ())
    step = max(1, len(case.output) // 60)
    for end in range(0, len(case.output), step):
        parser = text_parser_of(family, case)
        events = join(parser.feed(case.output[:end]) + parser.finish(cut=True))
        shown = [event for event in events if not isinstance(event, ToolCallCut)]
        calls = [event for event in shown if isinstance(event, ToolCallStarted)]
        assert [event.name for event in calls] == [
            event.name for event in whole if isinstance(event, ToolCallStarted)
        ][: len(calls)]
        for index in range(len(calls)):
            part, full = (
                "".join(
                    event.text
                    for event in found
                    if isinstance(event, ToolCallArguments) and event.index == index
                )
                for found in (shown, whole)
            )
            assert full.startswith(part), case.output[:end]


@every_case
def test_complete_calls_are_json(family: Family, case: Case) -> None:
    if case.finish == "stop":
        for call in outcome_of(by_text(family, case, ())).calls:
            assert not isinstance(call.arguments, str), call
            json.dumps(call.arguments)


def test_every_format_has_cases() -> None:
    assert {format_.name for format_ in FORMATS} == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_at_least_fifteen_cases(family: Family) -> None:
    ids = [case.id for case in family.all_cases()]
    assert len(ids) == len(set(ids)) >= 15
