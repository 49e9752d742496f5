"""The grammars of calls, judged by xgrammar, with what each family of models writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.structural_tag import CallTags, Choice

from tests.parsers.families import FAMILIES
from tests.parsers.families.family import SCENARIOS, TOOLS, Invocation, Scenario

xgrammar = pytest.importorskip("xgrammar")
testing = pytest.importorskip("xgrammar.testing")

FORMATS_WITH_TAGS = {format_.name: format_.call_tags for format_ in FORMATS if format_.call_tags}
SCHEMAS = [(tool["function"]["name"], tool["function"]["parameters"]) for tool in TOOLS]
CHOICES: tuple[Choice, ...] = ("any", "some", "one")
WRITERS = {family.name: family for family in FAMILIES.values() if family.name in FORMATS_WITH_TAGS}
# What xgrammar does not let a model write, and why that is no loss.
REFUSED = {
    ("lists", style): "xgrammar's XML has the parameters in the order of the schema"
    for style in ("deepseek_xml", "deepseek_v4_1_xml", "minimax_xml", "qwen_xml")
} | {("types", "qwen_xml"): "true and null are JSON there, not Python"}


def compile_tag(tags: CallTags, choice: Choice, tools: Any = SCHEMAS) -> Any:
    tag = tags.build_tag(tools, choice, any_order=True)
    return xgrammar.Grammar.from_structural_tag(json.dumps(tag))


def accepts(grammar: Any, text: str) -> bool:
    accepted: bool = testing._is_grammar_accept_string(grammar, text)
    return accepted


def write(name: str, content: str, *calls: Invocation) -> str:
    writer = WRITERS[name].write
    assert writer is not None
    return writer(content, calls)


def test_every_format_with_tags_has_a_family_that_writes_it() -> None:
    assert WRITERS.keys() == FORMATS_WITH_TAGS.keys()
    assert len(WRITERS) >= 9


@pytest.mark.parametrize("name", sorted(WRITERS))
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_what_the_model_writes_is_accepted(name: str, scenario: Scenario) -> None:
    tags = FORMATS_WITH_TAGS[name]
    text = write(name, scenario.content, *scenario.calls)
    is_refused = (scenario.id, tags.style) in REFUSED
    assert accepts(compile_tag(tags, "any"), text) is not is_refused
    forced = bool(scenario.calls) and not scenario.content and not is_refused
    assert accepts(compile_tag(tags, "some"), text.lstrip()) is forced
    assert accepts(compile_tag(tags, "one"), text.lstrip()) is (forced and len(scenario.calls) == 1)


HI = ("write", {"path": "a", "text": "hi"})


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_reasoning_before_a_call_is_free(name: str) -> None:
    text = "<think>\nA call, {or} not? [x] </think>\n\n" + write(name, "", HI)
    assert accepts(compile_tag(FORMATS_WITH_TAGS[name], "any"), text)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", sorted(WRITERS))
def test_a_call_of_an_undeclared_function_is_refused(name: str, choice: Choice) -> None:
    grammar = compile_tag(FORMATS_WITH_TAGS[name], choice)
    text = write(name, "", HI)
    assert accepts(grammar, text.lstrip())
    assert not accepts(grammar, write(name, "", ("wrote", HI[1])).lstrip())


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_any_object_stands_for_arguments_that_are_not_strict(name: str) -> None:
    grammar = compile_tag(FORMATS_WITH_TAGS[name], "any", [("write", {"type": "object"})])
    assert accepts(grammar, write(name, "", HI))


@pytest.mark.parametrize("name", sorted(WRITERS))
@pytest.mark.parametrize("function", ["a b", 'say "w"', "<f>", "", "x\n", "a{name}"])
def test_a_name_that_would_need_escapes_has_no_tag(name: str, function: str) -> None:
    assert FORMATS_WITH_TAGS[name].build_tag([(function, {})], "any") is None
