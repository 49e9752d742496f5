"""Reasoning in front of an answer with a grammar, judged by xgrammar."""

from __future__ import annotations

import json
from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.guided.call_policy import (
    ReasoningTags,
    after_reasoning,
    read_reasoning_tags,
    to_tag_format,
)
from backedge.parsers.base import ParserRequest
from backedge.parsers.events import join
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.linear_parsers import LinearParsers, Vocabulary

from tests.parsers.event_outcome import join_outcome

xgrammar = pytest.importorskip("xgrammar")
testing = pytest.importorskip("xgrammar.testing")

REASONING = {format_.name: format_ for format_ in FORMATS if format_.parses_reasoning}
# Reasoning without a marker that begins it.
WITHOUT_TAGS = {"minimax_m2_append_think"}
TAGS = ReasoningTags(("<think>",), ("</think>",), decided=False)
OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
LEGACY = {
    "type": "structural_tag",
    "triggers": ["<f="],
    "structures": [{"begin": "<f=x>", "schema": OBJECT, "end": "</f>"}],
}
# constraint, an answer that it allows, one that it does not
CONSTRAINTS: list[tuple[dict[str, Any], str, str]] = [
    ({"json": OBJECT}, '{"a": 1}', '{"a": "x"}'),
    ({"json": {}}, "[1]", "x"),
    ({"regex": "[a-c]{2}"}, "ab", "ad"),
    ({"grammar": 'root ::= "x" [0-9]'}, "x1", "xy"),
    ({"choice": ["yes", 'n"o']}, 'n"o', "no"),
    (
        {
            "structural_tag": {
                "type": "structural_tag",
                "format": {"type": "const_string", "value": "v"},
            }
        },
        "v",
        "w",
    ),
]


def accepts(guided: dict[str, Any], text: str) -> bool:
    tag = {"type": "structural_tag", "format": to_tag_format(guided)}
    grammar = xgrammar.Grammar.from_structural_tag(json.dumps(tag))
    accepted: bool = testing._is_grammar_accept_string(grammar, text)
    return accepted


def test_which_formats_have_tags() -> None:
    without = {name for name, format_ in REASONING.items() if read_reasoning_tags(format_) is None}
    assert without == WITHOUT_TAGS


@pytest.mark.parametrize("answer", ['{"a": 1}', "[1, 2]"])
@pytest.mark.parametrize("name", sorted(REASONING.keys() - WITHOUT_TAGS))
def test_what_the_grammar_lets_pass_is_read_as_reasoning(name: str, answer: str) -> None:
    tags = read_reasoning_tags(REASONING[name])
    assert tags is not None
    parsers = LinearParsers(None, REASONING[name], Vocabulary())
    for gap in ("", "\n\n"):
        parser = parsers(ParserRequest(), [])
        begin = "" if parser.continues_reasoning else tags.begins[0]
        text = f"{begin}Hm.{tags.ends[0]}{tags.after}{gap}{tags.content}"
        events = [event for character in text + answer for event in parser.feed(character, [0])]
        outcome = join_outcome(join([*events, *parser.finish()]))
        assert (outcome.reasoning, (outcome.content or "").strip()) == ("Hm.", answer)


@pytest.mark.parametrize("name", sorted(REASONING.keys() - WITHOUT_TAGS))
def test_what_a_model_of_the_format_writes(name: str) -> None:
    tags = read_reasoning_tags(REASONING[name])
    assert tags is not None
    begin, end = tags.begins[0], tags.ends[0] + tags.after
    opened = after_reasoning({"choice": ["yes"]}, tags, opened=True)
    assert accepts(opened, f"It, or {{not}}?{end}\n\n{tags.content}yes")
    assert not accepts(opened, f"It{end}no")
    assert not accepts(opened, "yes")
    free = after_reasoning({"choice": ["yes"]}, tags, opened=False)
    assert accepts(free, f"{begin}It{end}{tags.content}yes") is not tags.decided
    assert accepts(free, "yes")
    assert not accepts(free, f"{begin}It{end}{tags.content}")
    assert not accepts(free, "no")
    if not tags.decided:
        stopped = after_reasoning({"choice": ["yes"]}, tags, opened=False, may_stop=True)
        assert accepts(stopped, f"{begin}It, or")
        assert accepts(stopped, f"{begin}It{end}{tags.content}yes")
        assert not accepts(stopped, f"{begin}It{end}no")
    stopped = after_reasoning({"choice": ["yes"]}, tags, opened=True, may_stop=True)
    assert accepts(stopped, "It, or")
    assert not accepts(stopped, f"It{end}no")


@pytest.mark.parametrize(("guided", "good", "bad"), CONSTRAINTS, ids=lambda value: str(value)[:30])
def test_each_constraint(guided: dict[str, Any], good: str, bad: str) -> None:
    assert accepts(guided, good)
    assert not accepts(guided, bad)
    reasoned = after_reasoning(guided, TAGS, opened=False)
    for before in ("", "<think>x</think>", "<think>\nx\n</think>\n\n"):
        assert accepts(reasoned, before + good)
        assert not accepts(reasoned, before + bad)


def test_a_schema_as_text_and_its_white_space_are_read() -> None:
    guided = {"json": '{"type": "integer"}', "whitespace_pattern": " *"}
    assert accepts(after_reasoning(guided, TAGS, opened=True), "x</think>5")


def test_tags_of_the_older_form() -> None:
    guided = {"structural_tag": LEGACY}
    assert after_reasoning(guided, TAGS, opened=True) is guided, "text in front of it is free"
    assert accepts(guided, 'x <think> y</think> <f=x>{"a": 1}</f>')
    assert not accepts(guided, 'x <f=x>{"a": "1"}</f>')


@pytest.mark.parametrize(
    "tag", [{}, {"structures": [5], "triggers": []}, {"structures": [{}]}, {"format": 5}], ids=str
)
def test_what_is_no_tag(tag: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="a structural tag, with `format`"):
        to_tag_format({"structural_tag": tag})
