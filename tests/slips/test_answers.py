"""Answers without calls, in every format: a slip in their frame or a cut loses no word of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from backedge.parsers.base import ParserRequest
from backedge.parsers.events import Event
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.peers import load_tokenizer
from tests.parsers.event_outcome import read_shown
from tests.parsers.families.family import Family
from tests.parsers.fuzzing import fuzz
from tests.parsers.sample_model import feed_tokens
from tests.slips.outcome import find_words
from tests.slips.slips import CHANGES, TOOLS, apply, delimiters, split
from tests.slips.systems import WRITERS, find_parsers, read
from tests.slips.test_properties import read_text

every_family = pytest.mark.parametrize("family", WRITERS, ids=[family.name for family in WRITERS])
WORDS = st.lists(st.sampled_from(["alpha", "Beta", "so", "17", "x"]), min_size=2, max_size=5).map(
    " ".join
)
# Keys of which no format's calls have one.
KEYS = st.sampled_from(["city", "temp", "list", "count"])
VALUES = st.recursive(
    st.integers(0, 99) | st.sampled_from(["Paris", "a b", True, None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
# A piece of it may be the beginning of a marker, or of the next key.
MOST_HELD = 40


def write_answer(family: Family, thought: str, text: str) -> str:
    assert family.write is not None
    if family.think is not None:
        return family.think(thought) + family.write(text, ())
    if family.tags is not None:
        return f"{family.tags.start}{thought}{family.tags.end}{text}"
    return family.write(text, ())


@every_family
@fuzz(10)
@given(data=st.data(), thought=WORDS, text=WORDS)
def test_a_slip_with_a_marker_loses_no_word(
    family: Family, data: st.DataObject, thought: str, text: str
) -> None:
    output = write_answer(family, thought, text)
    pieces = split(family, output)
    if positions := delimiters(pieces):
        change = data.draw(st.sampled_from(CHANGES))
        pieces = apply(pieces, data.draw(st.sampled_from(positions)), change)
    parsers = find_parsers("ours", family)
    assert parsers is not None
    slipped = "".join(pieces)
    for events in (read(parsers, family, slipped), read_text(family, slipped, 5)):
        shown = read_shown(events)
        assert shown.names == []
        # A word may stand next to one of the frame's.
        assert all(word in shown.text for word in find_words([thought, text]) if word in output)


@every_family
@fuzz(20)
@given(key=KEYS, value=VALUES, more=st.dictionaries(KEYS | st.just("name"), VALUES), data=st.data())
def test_a_json_answer_is_text_wherever_it_is_cut(
    family: Family, key: str, value: Any, more: dict[str, Any], data: st.DataObject
) -> None:
    """From its first value on, whose key no call has; and it is streamed."""
    answer = (
        json.dumps({key: value, **more})
        if data.draw(st.booleans())
        else json.dumps([{key: value, **more}, value])
    )
    first = answer.index(":") + 3
    end = data.draw(st.integers(first, len(answer)))
    cut = data.draw(st.booleans())
    assert family.write is not None
    whole = family.write(answer, ())
    output = whole[: whole.index(answer) + end]
    for streamed, events in read_both(family, output, cut=cut):
        shown = read_shown(events)
        assert shown.names == []
        # What a limit leaves of a text marker is not shown, and a bracket begins some.
        ends = "[] " if cut else " "
        left = answer[:end].rstrip(ends)
        assert shown.text.strip().rstrip(ends) == left
        assert len(left) - len(read_shown(streamed).text.strip()) <= MOST_HELD


def read_both(family: Family, output: str, *, cut: bool) -> list[tuple[list[Event], list[Event]]]:
    """Return the events before the end and all, by tokens and by text."""
    names = family.names
    request = ParserRequest(tools=TOOLS, tool_choice="auto")
    parsers = find_parsers("ours", family)
    assert parsers is not None
    by_tokens, by_text = parsers(request, []), linear_parsers(names, Vocabulary())(request, [])
    fed = [feed_tokens(by_tokens, load_tokenizer(names), output), by_text.feed(output)]
    ends = [by_tokens.finish(cut=cut), by_text.finish(cut=cut)]
    return [(events, events + end) for events, end in zip(fed, ends, strict=True)]
