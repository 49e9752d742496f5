"""The linear parser on formats as small as their rule: transitions, values, headers, tokens."""

from __future__ import annotations

import re

import pytest
from backedge.parsers.compiled_format import CompiledFormat, compile_format
from backedge.parsers.events import (
    Content,
    Event,
    Reasoning,
    ToolCallArguments,
    ToolCallCut,
    ToolCallStarted,
)
from backedge.parsers.format import COMPLETE, Format, Jump, ReuseSuffix, State, Target
from backedge.parsers.machine import LinearParser

from tests.parsers import driver

PARAMETERS = {"f": {"properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}}
THINK: dict[State, dict[str, Target]] = {
    State.START: {"<t>": State.REASONING},
    State.REASONING: {"</t>": State.START},
}


def compile_states(
    states: dict[State, dict[str, Target]],
    vocabulary: dict[str, int] | None = None,
    headers: tuple[tuple[re.Pattern[str], State], ...] = (),
) -> CompiledFormat:
    format_ = Format("test", states, source="this test", headers=headers)
    return compile_format(format_, format_, vocabulary or {})


def parse(table: CompiledFormat, output: str, size: int, *, cut: bool = False) -> list[Event]:
    return driver.run(LinearParser(table, PARAMETERS), driver.cut(output, size), cut=cut)


KEYED = compile_states(
    {
        State.CONTENT: {"<f=": State.NAME},
        State.NAME: {">": State.PARAMETERS},
        State.PARAMETERS: {"<k=": State.KEY, "</f>": Jump.RETURN},
        State.KEY: {">": State.VALUE},
        State.VALUE: {"</k>": State.PARAMETERS},
    }
)
OBJECTS = compile_states(
    {
        **THINK,
        State.CONTENT: {"@{": ReuseSuffix(State.JSON_CALLS)},
        State.JSON_CALLS: {COMPLETE: Jump.RETURN},
    }
)
HEADED = compile_states(
    {
        State.START: {"<h>": State.HEADER},
        State.CONTENT: {"<h>": State.HEADER},
        State.REASONING: {"<h>": State.HEADER},
        State.ARGUMENTS: {"<h>": State.HEADER},
        State.HEADER: {"|": Jump.BY_HEADER},
    },
    headers=(
        (re.compile("to=(?P<name>[a-z]+)"), State.ARGUMENTS),
        (re.compile("think"), State.REASONING),
        (re.compile("say"), State.CONTENT),
    ),
)
F = ToolCallStarted(0, "f")
CASES: list[tuple[str, CompiledFormat, str, list[Event]]] = [
    (
        "values are typed by the schema",
        KEYED,
        "<f=f><k=n>1</k><k=s>1</k></f>",
        [F, ToolCallArguments(0, '{"n": 1, "s": "1"}')],
    ),
    ("no parameters", KEYED, "<f=f></f>!", [F, ToolCallArguments(0, "{}"), Content("!")]),
    (
        "the output ends in a value",
        KEYED,
        "<f=f><k=s>1",
        [F, ToolCallArguments(0, '{"s": "1'), ToolCallCut(0, "")],
    ),
    (
        "the output ends behind a value",
        KEYED,
        "<f=f><k=s>1</k>",
        [F, ToolCallArguments(0, '{"s": "1"}')],
    ),
    (
        "the output ends behind a key",
        KEYED,
        "<f=f><k=n>1</k><k=s",
        [F, ToolCallArguments(0, '{"n": 1'), ToolCallCut(0, "")],
    ),
    (
        "the output ends in a parameter's marker",
        KEYED,
        "<f=f><k=n>1</k><k",
        [F, ToolCallArguments(0, '{"n": 1'), ToolCallCut(0, "<k")],
    ),
    (
        "prose in place of a parameter",
        KEYED,
        "Write <f=f> and <f=f><k=s>1</k></f>",
        [Content("Write <f=f> and "), F, ToolCallArguments(0, '{"s": "1"}')],
    ),
    ("an undeclared function", KEYED, "<f=NAME></f>!", [Content("<f=NAME></f>!")]),
    (
        "a grammar ends by itself",
        OBJECTS,
        '@{"name": "f", "arguments": {}} ok',
        [F, ToolCallArguments(0, "{}"), Content("ok")],
    ),
    (
        "a call returns to the reasoning it interrupted",
        OBJECTS,
        '<t>a@{"name": "f", "arguments": {}}b',
        [Reasoning("a"), F, ToolCallArguments(0, "{}"), Reasoning("b")],
    ),
    ("an object that is no call", OBJECTS, '@{"a": 1}', [Content('@{"a": 1}')]),
    (
        "a header says what follows",
        HEADED,
        "<h>think|a<h>to=f|{}<h>say|b",
        [Reasoning("a"), F, ToolCallArguments(0, "{}"), Content("b")],
    ),
]


@pytest.mark.parametrize("size", [1, 2, 1 << 20])
@pytest.mark.parametrize(
    ("table", "output", "expected"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_any_cut_gives_the_same(
    table: CompiledFormat, output: str, expected: list[Event], size: int
) -> None:
    assert parse(table, output, size) == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("<f=f", [ToolCallCut(None, "<f=f")]),
        ("<f=f><k=n>1", [F, ToolCallArguments(0, '{"n": '), ToolCallCut(0, "1")]),
        ("text<f", [Content("text"), ToolCallCut(None, "<f")]),
        ("text <", [Content("text "), ToolCallCut(None, "<")]),
        ("text\n``", [Content("text\n``")]),
    ],
)
def test_a_limit_leaves_a_call_open(output: str, expected: list[Event]) -> None:
    assert parse(KEYED, output, 1, cut=True) == expected


def test_tokens_of_reasoning_are_counted_without_markers() -> None:
    table = compile_states(THINK, {"<t>": 1, "</t>": 2})
    parser = LinearParser(table, {})
    assert parser.token_aligned
    for text, token in (("<t>", 1), ("a", 9), ("b", 9), ("</t>", 2), ("c", 9)):
        parser.feed(text, [token])
    assert parser.reasoning_tokens == 2
    assert not parser.in_reasoning
    assert parser.reads_together([9, 9])
    assert not parser.reads_together([9, 2])


def test_a_marker_token_must_be_fed_alone() -> None:
    parser = LinearParser(compile_states(THINK, {"<t>": 1}), {})
    with pytest.raises(ValueError, match=r"the marker token 1 \('<t>'\) must be fed alone"):
        parser.feed("<t>a", [1, 9])


def test_the_prompt_may_decide_the_first_state() -> None:
    parser = LinearParser(OBJECTS, {}, State.REASONING_OPENED)
    assert parser.in_reasoning
    assert parser.feed("a") + parser.finish("</t>b") == [Reasoning("a"), Content("b")]
    assert parser.state is State.CONTENT
