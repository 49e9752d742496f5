"""Whatever a model writes: no exception, nothing lost, the same at any cut, a bounded hold-back.

`FUZZ_EXAMPLES=20000 pytest tests/parsers/test_fuzz.py` runs for minutes; the default is for CI.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence

import pytest
from backedge.base.limits import MAX_MARKUP, MAX_WAITING_CALL
from backedge.parsers.base import ParserRequest
from backedge.parsers.events import (
    Event,
    ToolCallArguments,
    ToolCallCut,
    ToolCallMalformed,
    ToolCallStarted,
    join,
)
from backedge.parsers.format import Format
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.formats.qwen3 import QWEN3
from backedge.parsers.linear_parsers import LinearParsers, Vocabulary
from backedge.parsers.machine import LinearParser
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers import driver
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import TOOLS
from tests.parsers.fuzzing import fuzz

THINK = QWEN3
WORDS = "write add path now name arguments 3 true None null analysis final json to=functions.now"
MARKS = """ "name" "arguments" "a" { } [ ] ( ) : , ; = < > </ | ' " \\ é 👋 世 ``` -1.5e """
CALLS = ('{"name": "now", "arguments": {}}', '{"a": 1}', "\\u00e9", "\\n", "\n", " ", "x" * 300)
# No vocabulary has it as one token.
TAG_AND_MORE = re.compile(r"(?s)<[^<>]*>.")
PIECES = (*WORDS.split(), *MARKS.split(), *CALLS)


def outputs(format_: Format) -> st.SearchStrategy[list[str]]:
    """Return soups of markers, of pieces of calls and of anything; and whole cases, mutated."""
    markers = sorted(
        {marker for by_marker in format_.states.values() for marker in by_marker if marker}
    )
    piece = st.sampled_from([*markers, *markers, *PIECES]) | st.text(max_size=6)
    soup = st.lists(piece, max_size=25)
    family = FAMILIES.get(format_.name)
    whole = (
        [case.output for case in family.all_cases() if len(case.output) < 400]
        if family is not None
        else []
    )
    if not whole:
        return soup
    mutated = st.builds(
        lambda text, start, new, removed: [text[:start], new, text[start + removed :]],
        st.sampled_from(whole),
        st.integers(0, 400),
        piece,
        st.integers(0, 12),
    )
    return soup | mutated


def build_parser(format_: Format, vocabulary: Vocabulary) -> LinearParser:
    tools = format_ if format_.parses_tools else None
    reasoning = format_ if format_.parses_reasoning else THINK
    parsers = LinearParsers(tools, reasoning, vocabulary)
    parser = parsers(ParserRequest(tools=list(TOOLS), tool_choice="auto"), [])
    assert isinstance(parser, LinearParser)
    return parser


def run(parser: LinearParser, pieces: Sequence[str], *, cut: bool) -> list[Event]:
    events: list[Event] = []
    for piece in pieces:
        events += parser.feed(piece)
        assert sum(part.length for part in parser.held) <= MAX_WAITING_CALL + 2 * MAX_MARKUP
    return join(events + parser.finish(cut=cut))


def check_calls(events: Sequence[Event]) -> None:
    """Check that events of calls are in order, and each call's arguments JSON or visibly open."""
    arguments: dict[int, str] = {}
    for event in events:
        if isinstance(event, ToolCallStarted):
            assert event.index == len(arguments)
            assert event.name
            arguments[event.index] = ""
        elif isinstance(event, ToolCallArguments):
            assert event.index == len(arguments) - 1
            assert event.text
            arguments[event.index] += event.text
    still_open = {e.index for e in events if isinstance(e, ToolCallCut | ToolCallMalformed)}
    for index, text in arguments.items():
        if index not in still_open:
            json.loads(text)


@pytest.mark.parametrize("format_", FORMATS, ids=lambda format_: format_.name)
@fuzz(6)
@given(data=st.data(), cut=st.booleans())
def test_text(format_: Format, data: st.DataObject, cut: bool) -> None:
    pieces = data.draw(outputs(format_))
    text = "".join(pieces)
    whole = run(build_parser(format_, Vocabulary()), [text], cut=cut)
    if not cut:
        check_calls(whole)
    assert run(build_parser(format_, Vocabulary()), pieces, cut=cut) == whole
    assert run(build_parser(format_, Vocabulary()), list(text), cut=cut) == whole
    positions = sorted(
        {0, len(text), *data.draw(st.sets(st.integers(0, max(1, len(text))), max_size=9))}
    )
    assert (
        run(
            build_parser(format_, Vocabulary()),
            [text[a:b] for a, b in itertools.pairwise(positions)],
            cut=cut,
        )
        == whole
    )


@pytest.mark.parametrize("format_", FORMATS, ids=lambda format_: format_.name)
@pytest.mark.parametrize("shown", [True, False], ids=["shown", "hidden"])
@fuzz(6)
@given(data=st.data(), cut=st.booleans())
def test_marker_tokens(format_: Format, shown: bool, data: st.DataObject, cut: bool) -> None:
    """The markers are tokens, whose text may be hidden; the text between them is cut anywhere."""
    names = sorted(
        {
            marker
            for by_marker in format_.states.values()
            for marker in by_marker
            if marker.startswith("<") and not TAG_AND_MORE.match(marker)
        }
    )
    ids = {marker: number for number, marker in enumerate(names, start=1)}
    pieces = data.draw(outputs(format_))

    def tokens(*, by_character: bool) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for piece in pieces:
            if piece in ids:
                found.append((piece if shown else "", ids[piece]))
            else:
                found += [(part, 0) for part in (piece if by_character else [piece])]
        return found

    def with_leftovers(stream: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """Let a detokenizer keep each text until the next token, if that is a marker."""
        found: list[tuple[str, int]] = []
        for text, token_id in stream:
            marker = names[token_id - 1] if token_id else ""
            # Text that ends as a hidden marker would be taken for it.
            keeps = found and not found[-1][1] and not found[-1][0].endswith(marker)
            left = found.pop()[0] if token_id and keeps else ""
            found.append((left + text, token_id))
        return found

    def fed(stream: list[tuple[str, int]]) -> list[Event]:
        parser = build_parser(format_, Vocabulary(ids))
        return driver.run(parser, stream, cut=cut)

    whole = fed(tokens(by_character=False))
    if not cut:
        check_calls(whole)
    assert fed(tokens(by_character=True)) == whole
    for by_character in (True, False):
        assert fed(with_leftovers(tokens(by_character=by_character))) == whole
