from __future__ import annotations

from dataclasses import replace

import pytest
from backedge.parsers.base import ParserRequest
from backedge.parsers.events import (
    Content,
    Event,
    Reasoning,
    ToolCallArguments,
    ToolCallStarted,
)
from backedge.parsers.format import Format, Jump, ReuseSuffix, State, States
from backedge.parsers.formats.fragments import (
    invocation,
    invoke,
    json_calls,
    keyed_values,
    merge_states,
    think,
    variant,
)
from backedge.parsers.linear_parsers import LinearParsers, Vocabulary

from tests.parsers.driver import run

TOOLS = [{"type": "function", "function": {"name": "f"}}]
CALL = [ToolCallStarted(0, "f"), ToolCallArguments(0, '{"a": "1"}')]


def read(states: States, text: str) -> list[Event]:
    """Return the events of `text`, fed one character at a time."""
    format_ = Format("ours", states, source="a test", strip="")
    reasoning = format_ if format_.parses_reasoning else None
    tools = format_ if format_.parses_tools else None
    request = ParserRequest(tools=TOOLS, tool_choice="auto")
    parser = LinearParsers(tools, reasoning, Vocabulary())(request, [])
    return run(parser, text)


@pytest.mark.parametrize(
    ("states", "text", "events"),
    [
        (think(), "<think>so</think>yes", [Reasoning("so"), Content("yes")]),
        (think(), "<think>so</think></think>yes", [Reasoning("so"), Content("</think>yes")]),
        (think(extra_end=True), "<think>so</think></think>yes", [Reasoning("so"), Content("yes")]),
        (think(extra_end=True), "</think>yes", [Content("yes")]),
        (think("[T]", "[/T]"), "[T]so[/T]yes", [Reasoning("so"), Content("yes")]),
        (
            think(("<a>", "<b>"), ("</a>", "</b>")),
            "<b>so</a>yes",
            [Reasoning("so"), Content("yes")],
        ),
    ],
)
def test_think(states: States, text: str, events: list[Event]):
    assert read(states, text) == events


PAIRS = keyed_values("<k>", "<v>", "</v>", key_end="</k>", then={"</call>": Jump.RETURN})
ATTRIBUTES = keyed_values("<p=", ">", "</p>", then={"</call>": Jump.RETURN})


@pytest.mark.parametrize(
    ("states", "text"),
    [
        (
            {
                State.CONTENT: {"<call>": State.NAME},
                State.NAME: {"<k>": State.KEY, "</call>": Jump.RETURN},
                **PAIRS,
            },
            "<call>f<k>a</k><v>1</v></call>",
        ),
        (
            {
                State.CONTENT: {"<call ": State.NAME},
                State.NAME: {">": State.PARAMETERS},
                **ATTRIBUTES,
            },
            "<call f><p=a>1</p></call>",
        ),
        (
            {
                State.CONTENT: invoke("x:", ('"', "'")),
                State.TOOL_SECTION: {"</calls>": Jump.RETURN},
                **invocation("x:", ('"', "'"), then={"</calls>": Jump.RETURN}),
            },
            """<x:invoke name='f'><x:parameter name="a">1</x:parameter></x:invoke></calls>""",
        ),
        (json_calls("<call>", "</call>"), '<call>{"name": "f", "arguments": {"a": "1"}}</call>'),
    ],
    ids=["keys and values in tags", "keys as attributes", "invocation", "JSON"],
)
def test_calls(states: States, text: str):
    assert read(states, f"{text}ok") == [*CALL, Content("ok")]


def test_merging_keeps_the_markers_of_all():
    merged = merge_states(
        {State.START: {"<a>": State.START}, State.CONTENT: {"<b>": State.START}},
        {State.START: {"<a>": State.CONTENT, "<c>": State.START}},
    )
    assert merged == {
        State.START: {"<a>": State.CONTENT, "<c>": State.START},
        State.CONTENT: {"<b>": State.START},
    }


BASE = Format(
    "base",
    {
        State.CONTENT: {"<call>": State.NAME, "@[": ReuseSuffix(State.JSON_CALLS)},
        State.NAME: {"<args>": State.ARGUMENTS},
        State.ARGUMENTS: {"</call>": Jump.RETURN},
        State.JSON_CALLS: {"]": Jump.RETURN},
    },
    source="a test",
    aliases=("other",),
    strip="",
    declared_only=True,
)


def test_a_variant_changes_strings_and_keeps_the_rest():
    changed = variant(
        BASE,
        "changed",
        source="another test",
        markers={"call": "args", "args": "call"},
        states=think(),
        undeclared_type="json",
    )
    assert changed.states == {
        State.CONTENT: {"<args>": State.NAME, "@[": ReuseSuffix(State.JSON_CALLS)},
        State.NAME: {"<call>": State.ARGUMENTS},
        State.ARGUMENTS: {"</args>": Jump.RETURN},
        State.JSON_CALLS: {"]": Jump.RETURN},
        **think(),
    }
    same = replace(
        changed, name="base", states=BASE.states, source="a test", aliases=("other",),
        undeclared_type="string",
    )  # fmt: skip
    assert same == BASE
    assert changed.aliases == ()


def test_a_marker_that_is_misspelt_is_refused():
    with pytest.raises(ValueError, match="no marker of the format 'base' contains 'cal>'"):
        variant(BASE, "changed", source="a test", markers={"cal>": "x"})
