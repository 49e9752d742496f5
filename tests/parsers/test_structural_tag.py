"""The grammars of calls, judged by xgrammar: what models write, slips, and random walks.

`GRAMMAR_WALKS=1000 pytest tests/parsers/test_structural_tag.py -k walk` runs for minutes.
"""

from __future__ import annotations

import functools
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from backedge.base.limits import MAX_GRAMMAR_SPACE
from backedge.guided.call_policy import after_reasoning, read_reasoning_tags
from backedge.parsers.events import ToolCallCut, ToolCallMalformed
from backedge.parsers.format import State
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.structural_tag import build_tag
from jsonschema import Draft202012Validator

from tests.parsers.event_outcome import join_outcome
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import SCENARIOS, TOOLS, Invocation, Scenario
from tests.parsers.walks import Reader, Walker, accepts, parse
from tests.slips.slips import TOOLS as SLIP_TOOLS
from tests.slips.slips import slips

xgrammar = pytest.importorskip("xgrammar")

WALKS = int(os.environ.get("GRAMMAR_WALKS", "12"))
SPELT = {format_.name: format_ for format_ in FORMATS if format_.spelling is not None}
# Calls that begin with no marker of their own but a message's header, which any message has.
ONLY_FORCED = {"beam", "muse_glimmer"}
# Calls that begin the answer without a marker; text before them is not free.
BARE = {"llama3_json", "pythonic", "xlam"}
# The marker that ends a call ends the output, so no grammar has it.
LAST = {"beam": "<|call|>", "openai": "<|call|>", "muse_glimmer": "<|eot|>"}
# What a grammar does not let a model write, and why that is no loss.
REFUSED = {
    ("seed_oss", name): "objects and arrays are JSON there, not Python"
    for name in ("nested", "lists")
}
DECLARED: dict[str, dict[str, Any]] = {
    "write": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "mode": {"enum": ["r", "w"]}},
        "required": ["path"],
    },
    "add": {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 0, "maximum": 99},
            "b": {"type": "number", "minimum": -5, "maximum": 1000},
            "exact": {"type": "boolean"},
            "label": {"type": ["string", "null"], "maxLength": 5},
        },
        "required": ["a", "label"],
    },
    "query": {
        "type": "object",
        "properties": {
            "filter": {
                "type": "object",
                "properties": {"k": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
                "additionalProperties": False,
            },
            "u": {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 2}]},
            "day": {"type": "string", "pattern": "^[0-9]{4}$"},
        },
        "required": ["filter"],
        "$defs": {"n": {"type": "integer"}},
    },
    "node": {
        "type": "object",
        "properties": {"next": {"$ref": "#"}, "size": {"type": "integer"}},
        "required": ["size"],
        "additionalProperties": False,
    },
    "now": {"type": "object", "properties": {}, "additionalProperties": False},
}
DECLARED_TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": schema}}
    for name, schema in DECLARED.items()
]
every_format = pytest.mark.parametrize("name", sorted(SPELT))


def derive(name: str, forced: bool, single: bool = False, slip: bool = False) -> Any:
    tools = [tool["function"] for tool in (SLIP_TOOLS if slip else TOOLS)]
    schemas = [(tool["name"], tool["parameters"]) for tool in tools]
    return build_tag(SPELT[name], schemas, forced=forced, single=single, any_order=not slip)


def compile_json(tag: Any) -> Any:
    return None if tag is None else xgrammar.Grammar.from_structural_tag(json.dumps(tag))


@functools.cache
def compile_tag(name: str, forced: bool, single: bool = False, slip: bool = False) -> Any:
    return compile_json(derive(name, forced, single, slip))


def write(name: str, content: str, *calls: Invocation) -> str:
    writer = FAMILIES[name].write
    assert writer is not None
    return writer(content, calls).removesuffix(LAST.get(name, "\0"))


def test_which_formats_have_no_grammar() -> None:
    assert {f.name for f in FORMATS if f.parses_tools} == SPELT.keys()
    assert {name for name in SPELT if compile_tag(name, forced=False) is None} == ONLY_FORCED
    table = (Path(__file__).parents[2] / "docs" / "requests.md").read_text(encoding="utf-8")
    assert f"| {', '.join(f'`{name}`' for name in sorted(ONLY_FORCED))}, for `auto` |" in table


@every_format
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_what_the_model_writes_is_accepted(name: str, scenario: Scenario) -> None:
    text = write(name, scenario.content, *scenario.calls)
    good = (name, scenario.id) not in REFUSED
    if name not in ONLY_FORCED:
        assert accepts(compile_tag(name, forced=False), text) is good
        single = compile_tag(name, forced=False, single=True)
        assert accepts(single, text.rstrip("\n")) is (good and len(scenario.calls) < 2)
    has_content = bool(scenario.content) and scenario.id not in FAMILIES[name].leaves_out
    forced = bool(scenario.calls) and not has_content and good
    assert accepts(compile_tag(name, forced=True), text) is forced
    one = forced and len(scenario.calls) == 1
    assert accepts(compile_tag(name, forced=True, single=True), text) is one


HI = ("write", {"path": "a", "text": "hi"})


@pytest.mark.parametrize("name", sorted(SPELT.keys() - ONLY_FORCED - BARE))
def test_reasoning_before_a_call_is_free(name: str) -> None:
    text = "<think>\nA call, {or} not? [x] </think>\n\n" + write(name, "", HI)
    assert accepts(compile_tag(name, forced=False), text)


@pytest.mark.parametrize("name", sorted(n for n, f in SPELT.items() if f.parses_reasoning))
def test_a_forced_call_follows_the_reasoning(name: str) -> None:
    format_ = SPELT[name]
    tags = read_reasoning_tags(format_)
    assert tags is not None
    guided = {"structural_tag": derive(name, forced=True)}
    thought, call = f"Hm.{tags.ends[0]}{tags.after}", write(name, "", HI)
    text = tags.begins[0] + thought + call
    free = after_reasoning(guided, tags, opened=False)["structural_tag"]
    opened = after_reasoning(guided, tags, opened=True)["structural_tag"]
    assert accepts(compile_json(free), text) is not tags.decided
    assert accepts(compile_json(opened), thought + call)
    outcome = join_outcome(parse(format_, TOOLS, text + LAST.get(name, ""), reasons=True))
    assert (outcome.reasoning, outcome.content) == ("Hm.", None)
    assert [(call.name, call.arguments) for call in outcome.calls] == [HI]


@every_format
def test_a_call_of_an_undeclared_function_is_refused(name: str) -> None:
    for forced in (True, False):
        grammar = compile_tag(name, forced)
        if grammar is not None:
            assert accepts(grammar, write(name, "", HI))
            # Without a marker, it is text.
            is_text = not forced and name in BARE
            assert accepts(grammar, write(name, "", ("wrote", HI[1]))) is is_text


@every_format
def test_any_object_stands_for_arguments_that_are_not_strict(name: str) -> None:
    tag = build_tag(SPELT[name], [("write", {"type": "object"})], forced=True)
    assert accepts(xgrammar.Grammar.from_structural_tag(json.dumps(tag)), write(name, "", HI))


@every_format
@pytest.mark.parametrize("function", ["a b", 'say "w"', "<f>", "", "x\n", "a{name}"])
def test_a_name_that_would_need_escapes_has_no_tag(name: str, function: str) -> None:
    assert build_tag(SPELT[name], [(function, {})]) is None


@pytest.mark.parametrize("name", ["lfm2", "olmo3", "pythonic"])
def test_a_name_that_is_none_in_python_has_no_tag(name: str) -> None:
    for function, has_tag in (("a/b", False), ("2x", False), ("weather.get-time", True)):
        assert (build_tag(SPELT[name], [(function, {})]) is not None) is has_tag


def without_marks(arguments: Any) -> dict[str, str]:
    return {key: re.sub(r"[^\w ]", "", str(value)) for key, value in arguments.items()}


@every_format
def test_a_slip_is_refused_unless_it_means_the_same(name: str) -> None:
    grammar = compile_tag(name, forced=True, slip=True)
    refused = 0
    for slip in slips(FAMILIES[name]):
        if accepts(grammar, slip.output.removesuffix(LAST.get(name, "\0"))):
            outcome = join_outcome(parse(SPELT[name], SLIP_TOOLS, slip.output))
            assert [call.name for call in outcome.calls] == [name for name, _ in slip.calls], slip
            for call, (_, meant) in zip(outcome.calls, slip.calls, strict=True):
                # A mark too many inside a string is a part of it.
                found = without_marks(call.arguments)
                assert found.keys() == meant.keys(), slip
                assert [key for key in meant if str(meant[key]) not in found[key]] == [], slip
        else:
            refused += 1
    assert refused > 20


@every_format
def test_no_grammar_of_json_has_white_space_without_end(name: str) -> None:
    tag = build_tag(SPELT[name], list(DECLARED.items()), forced=True)
    waiting: list[Any] = [tag]
    for part in waiting:
        if isinstance(part, dict) and part.get("type") == "json_schema":
            schema = part["json_schema"]
            is_scalar = schema.get("type") in ("integer", "number", "string", "boolean", "null")
            assert is_scalar or part["max_whitespace_cnt"] == MAX_GRAMMAR_SPACE, part
        elif isinstance(part, dict | list):
            waiting += part.values() if isinstance(part, dict) else part


@every_format
def test_a_walk_over_the_masks_is_read_as_it_was_written(name: str) -> None:
    format_ = SPELT[name]
    spelling = format_.spelling
    assert spelling is not None
    tag = build_tag(format_, list(DECLARED.items()), forced=True)
    assert tag is not None
    walker, reader = Walker(tag), Reader(spelling)
    for number in range(WALKS):
        text = walker.walk(f"{name} {number}")
        events = parse(format_, DECLARED_TOOLS, text + LAST.get(name, ""))
        outcome = join_outcome(events)
        assert not [e for e in events if isinstance(e, ToolCallCut | ToolCallMalformed)], text
        assert not (outcome.content or "").strip(), text
        for call in outcome.calls:
            assert isinstance(call.arguments, dict), text
            assert Draft202012Validator(DECLARED[call.name]).is_valid(call.arguments), text
        if State.ELEMENTS in spelling.parameters:
            continue  # nested elements are beyond the reader
        written = reader.read(text)
        assert [call.name for call in outcome.calls] == [name for name, _ in written], text
        for call, (_, arguments) in zip(outcome.calls, written, strict=True):
            assert isinstance(call.arguments, dict)
            if spelling.parameters and spelling.literals is None:
                assert call.arguments.keys() == arguments.keys(), text
            else:
                assert call.arguments == arguments, text
