"""Every case of every family: whole, by character, by token, and at any cut."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterator
from typing import Any

import pytest
from backedge.parsers.base import ParserFactory, ParserNames, ParserRequest, StreamParser
from backedge.parsers.events import (
    Event,
    join,
)
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.samples.sample import Call, Outcome
from benchmarks.samples.tokenizers import bpe, encode
from tests.parsers.driver import cut_at, run
from tests.parsers.event_outcome import join_outcome, read_shown
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import TOOLS, Case, Family
from tests.parsers.sample_model import cached_linear_parsers, feed_tokens

ROWS = [
    pytest.param(family, case, id=f"{family.name}-{case.id}")
    for family in FAMILIES.values()
    for case in family.all_cases()
]
every_case = pytest.mark.parametrize(("family", "case"), ROWS)
# No marker of any format is longer, nor is a scalar that waits for its end.
MAX_HELD = 1024


# Compiling a format takes longer than to parse a case, so factories are kept.
@functools.cache
def text_parsers(names: ParserNames, turn: str) -> ParserFactory:
    return linear_parsers(names, Vocabulary(decode=lambda _: turn))


def build_request(case: Case) -> ParserRequest:
    tools = list(TOOLS if case.tools is None else case.tools)
    return ParserRequest(tools=tools, tool_choice="auto" if tools else "none")


def build_text_parser(family: Family, case: Case) -> StreamParser:
    """Return a parser that knows no marker as a token; the prompt's turn is one token."""
    turn = case.prompt.rpartition("<|im_start|>")[2]
    return text_parsers(family.names, turn)(build_request(case), [0] if case.prompt else [])


def by_text(family: Family, case: Case, cuts: Collection[int]) -> list[Event]:
    """Return the joined events of a parser that knows no tokens, fed `case` cut at `cuts`."""
    parser = build_text_parser(family, case)
    return run(parser, cut_at(case.output, cuts), cut=case.finish == "length")


def by_token(family: Family, case: Case) -> list[Event]:
    """Return the joined events of a parser that knows its markers as tokens."""
    tokenizer = bpe(family.markers, family.special)
    parsers = cached_linear_parsers(family.names, tokenizer)
    parser = parsers(build_request(case), encode(tokenizer, case.prompt))
    events = feed_tokens(parser, tokenizer, case.output)
    return join(events + parser.finish(cut=case.finish == "length"))


@every_case
def test_the_case_is_read_whole_by_character_and_by_token(family: Family, case: Case) -> None:
    whole = by_text(family, case, ())
    outcome = join_outcome(whole)
    assert outcome == case.expected
    assert by_text(family, case, range(1, len(case.output))) == whole
    assert join_outcome(by_token(family, case)) == case.expected
    if case.finish == "stop" and not case.unfinished:
        for call in outcome.calls:
            assert not isinstance(call.arguments, str), call
            json.dumps(call.arguments)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
@settings(max_examples=30, deadline=None, database=None)
@given(data=st.data())
def test_any_cut(family: Family, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([case for case in family.all_cases() if len(case.output) > 1]))
    cuts = data.draw(st.sets(st.integers(1, len(case.output) - 1), max_size=12))
    assert by_text(family, case, cuts) == by_text(family, case, ())


@every_case
def test_truncated_anywhere(family: Family, case: Case) -> None:
    """What a limit leaves is a beginning of the whole, and what is missing of it is reported."""
    whole = read_shown(by_text(family, case, ()))
    step = max(1, len(case.output) // 20)
    for end in range(0, len(case.output), step):
        parser = build_text_parser(family, case)
        cut = read_shown(run(parser, [case.output[:end]], cut=True))
        assert cut.calls_begin(whole), case.output[:end]


def test_every_format_has_cases() -> None:
    assert {format_.name for format_ in FORMATS} == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_at_least_fifteen_cases(family: Family) -> None:
    ids = [case.id for case in family.all_cases()]
    assert len(ids) == len(set(ids)) >= 15


END_MARKER = re.compile(r"(?:<[^<>]*>|\[/\w+\])\s*\Z")
ONE_CALL = (("write", {"path": "a.txt", "text": "hi"}),)


def leftovers() -> Iterator[Any]:
    """Yield by family a call with its last end, or closing bracket, once too often."""
    for family in FAMILIES.values():
        output = family.write("", ONE_CALL).rstrip() if family.write is not None else ""
        end = END_MARKER.search(output)
        if end is not None and family.name not in NO_OWN_END:
            yield pytest.param(family, output + end[0], id=f"{family.name}-end")
        elif end is None and output[-1:] in tuple("}])"):
            for more in (output[-1], " }\n]"):
                yield pytest.param(family, output + more, id=f"{family.name}-bracket-{more!r}")


# The end of an element of any kind; one whose first half is a token; one that begins an answer.
NO_OWN_END = {"kimi_k3", "minimax_m3", "ling3", "solar_open2"}


@pytest.mark.parametrize(("family", "output"), list(leftovers()))
@pytest.mark.parametrize("behind", ["", "\n", " Done."])
def test_an_end_that_is_doubled_is_not_shown(family: Family, output: str, behind: str) -> None:
    case = Case("", output + behind, Outcome(calls=(Call(*ONE_CALL[0]),)), prompt=family.prompt)
    for cuts in ((), range(1, len(case.output))):
        outcome = join_outcome(by_text(family, case, cuts))
        assert outcome.calls == case.expected.calls
        assert (outcome.content or "").strip() == behind.strip()
    outcome = join_outcome(by_token(family, case))
    assert outcome.calls == case.expected.calls
    assert (outcome.content or "").strip() == behind.strip()


@pytest.mark.parametrize(("family", "output"), list(leftovers()))
def test_words_before_the_end_of_calls_leave_no_end(family: Family, output: str) -> None:
    """Nor is a second mention of the end taken for one."""
    end = END_MARKER.search(output)
    if end is None or re.search(r"[}\])]\s*\Z", output.removesuffix(end[0] * 2)) is None:
        return  # the end is a bracket, or belongs to a tag
    call = output.removesuffix(end[0] * 2)
    text = f" so {end[0]} and {end[0].strip()} too."
    case = Case("", call + text, Outcome(calls=(Call(*ONE_CALL[0]),)), prompt=family.prompt)
    for cuts in ((), range(1, len(case.output))):
        outcome = join_outcome(by_text(family, case, cuts))
        if isinstance(outcome.calls[0].arguments, str):
            return  # the end is the call's own, which stays open with the text in it
        assert outcome.calls == case.expected.calls
        shown = (outcome.content or "").split()
        assert shown in (["so", "and", end[0].strip(), "too."], ["so", "and", "too."])
