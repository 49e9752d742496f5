"""Formats compiled for a vocabulary: which markers count, and whether as token or as text."""

from __future__ import annotations

import re

import pytest
from backedge.parsers.compiled_format import FENCE, FENCES, compile_format
from backedge.parsers.format import Format, Jump, ReuseSuffix, State
from backedge.parsers.formats.catalog import FORMATS

THINK = Format(
    "think",
    {
        State.START: {"<think>": State.REASONING},
        State.REASONING: {"</think>": State.START},
    },
    source="this test",
)
CALLS = Format(
    "calls",
    {
        State.CONTENT: {"<call>": State.ARGUMENTS},
        State.ARGUMENTS: {"</call>": Jump.RETURN, "</calls>": Jump.RETURN},
    },
    source="this test",
    quotes=("<q>",),
)
HEADED = Format(
    "headed",
    {
        State.START: {"<head>": State.HEADER},
        State.HEADER: {"|": Jump.BY_HEADER},
        State.REASONING: {"<head>": State.HEADER},
        State.ARGUMENTS: {"<head>": State.HEADER},
    },
    source="this test",
    headers=((re.compile("think"), State.REASONING), (re.compile("f"), State.ARGUMENTS)),
)


def test_states_share_markers_by_rule() -> None:
    markers = compile_format(THINK, CALLS, {}).markers
    calls = {"<call>": State.ARGUMENTS}
    fences = dict.fromkeys(FENCES, State.CODE_FENCE)
    ends = dict.fromkeys(("</call>", "</calls>"), State.CONTENT)  # doubled, after a call
    assert markers[State.CONTENT] == {**calls, **fences, **ends}
    assert markers[State.CODE_FENCE] == {
        **calls,
        "`": State.CONTENT,
        "\n": ReuseSuffix(State.CODE_BLOCK),
    }
    assert markers[State.CODE_BLOCK] == {**calls, **dict.fromkeys(FENCES, State.CONTENT)}
    assert markers[State.START] == {
        **calls,
        **fences,
        FENCE: State.CODE_FENCE,
        "<think>": State.REASONING,
    }
    reasoning = {"<call>": State.ARGUMENTS, "</think>": State.START}
    assert markers[State.REASONING] == {**reasoning, **dict.fromkeys(ends, State.REASONING)}
    assert markers[State.REASONING_OPENED] == {**reasoning, "<think>": State.REASONING}


def test_without_tools_calls_are_text() -> None:
    table = compile_format(THINK, None, {})
    assert State.ARGUMENTS not in table.markers
    assert "<call>" not in table.markers[State.START]
    assert table.markers[State.CONTENT].keys().isdisjoint(FENCES)


def test_a_token_opens_reasoning_again_and_an_end_without_a_beginning_is_dropped() -> None:
    vocabulary = {"<think>": 1, "</think>": 2, "</call>": 3}
    markers = compile_format(THINK, CALLS, vocabulary).markers
    assert markers[State.CONTENT]["<think>"] is State.REASONING
    for state in (State.START, State.CONTENT, State.CODE_BLOCK):
        assert markers[state]["</think>"] is state
        assert markers[state]["</call>"] is state
    assert markers[State.REASONING]["</call>"] is State.REASONING
    guided = compile_format(THINK, None, vocabulary, guided=True).markers
    assert guided[State.CONTENT] == {}


def test_without_a_reasoning_parser_a_tool_format_has_no_reasoning() -> None:
    both = Format("both", {**THINK.states, **CALLS.states}, source="this test")
    assert "<think>" not in compile_format(None, both, {}).markers[State.START]
    assert "<think>" in compile_format(both, both, {}).markers[State.START]


def test_headers_that_announce_reasoning_keep_it() -> None:
    assert compile_format(None, HEADED, {}).headers == HEADED.headers
    assert State.REASONING in compile_format(None, HEADED, {}).markers
    without_calls = [state for _, state in compile_format(HEADED, None, {}).headers]
    assert without_calls == [State.REASONING, State.IGNORED]


def test_a_token_counts_as_token_only() -> None:
    table = compile_format(THINK, CALLS, {"<think>": 1, "</call>": 2, "<q>": 3, "<": 4, "x": 5})
    assert table.ids == {1: "<think>", 2: "</call>", 3: "<q>"}
    assert table.parts == {4: "<"}
    assert table.alone == {1, 2, 3, 4}
    assert table.scanners[State.ARGUMENTS].final.search("</call>") is None
    found = table.scanners[State.ARGUMENTS].final.search("a</calls>")
    assert found is not None
    assert found.group() == "</calls>"


def test_reasoning_is_counted_by_token_where_text_may_begin_or_end_it() -> None:
    in_text = compile_format(THINK, CALLS, {}).counted
    assert {State.START, State.REASONING} <= in_text
    as_tokens = compile_format(THINK, CALLS, {"<think>": 1, "</think>": 2}).counted
    assert State.CONTENT not in as_tokens


@pytest.mark.parametrize("format_", FORMATS, ids=lambda format_: format_.name)
def test_every_format_compiles_with_and_without_tokens(format_: Format) -> None:
    forms = (format_, *format_.forms)
    own = {m for form in forms for by_marker in form.states.values() for m in by_marker if m}
    markers = {spelt for marker in own for spelt in format_.spell(marker)}
    vocabulary = {marker: number for number, marker in enumerate(sorted(markers))}
    by_text, by_token = (compile_format(format_, format_, ids) for ids in ({}, vocabulary))
    for state, by_marker in by_text.markers.items():
        assert by_marker.items() <= by_token.markers[state].items()
    assert by_text.alone == frozenset()
    assert set(by_token.ids.values()) >= markers
    fences = {FENCE, *FENCES}
    assert by_token.scanners.keys() <= {State.CODE_FENCE} | {
        state for state, found in by_token.markers.items() if not fences.isdisjoint(found)
    }
