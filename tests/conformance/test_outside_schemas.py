"""A vendor's schemas as a function's parameters: every format's calls are read as they say."""

from __future__ import annotations

import functools
import json
import random
from typing import Any

import pytest
from backedge.base.limits import MAX_GRAMMAR_STEPS
from backedge.guided.client_schemas import find_tool_fault, standardize
from backedge.guided.grammar_size import measure_schema
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import ToolCallCut, ToolCallMalformed, join
from backedge.parsers.formats.hermes import HERMES
from backedge.parsers.linear_parsers import Vocabulary
from backedge.parsers.parser_lookup import linear_parsers
from backedge.parsers.structural_tag import build_tag
from jsonschema import Draft202012Validator

from tests.conformance.cases import OUTSIDE
from tests.parsers.event_outcome import join_outcome
from tests.parsers.families import FAMILIES

SUITES = OUTSIDE / "walle_schemas" / "validator_cases"
SCHEMAS = {
    f"{path.parent.name} {number}": json.loads(line)
    for path in sorted(SUITES.glob("*/valid.jsonl"))
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    if line.strip()
}
if not SCHEMAS:
    pytest.skip("there are no schemas beside the checkout", allow_module_level=True)

# Parameters are keywords of a call in Python, and bare keys with space around them in Gemma's.
PYTHON = ("lfm2", "olmo3", "pythonic")
BARE = ("functiongemma", "gemma4")
# Without text, a nested element is an empty list or an empty string.
UNTYPED = ("minimax_m3", "TestEnforcerCases 85")
INSTANCES = 3
every_family = pytest.mark.parametrize(
    "name", [family.name for family in FAMILIES.values() if family.write is not None]
)
TRIES = 40
MAX_DEPTH = 8
WORDS = ("a", "two words", "x < 3", "é 世", "", "12", "true")
SAMPLES: dict[str, tuple[Any, ...]] = {
    "string": WORDS,
    "integer": (0, -7, 42, 10**12),
    "number": (0.5, -7, 42, 3.0),
    "boolean": (True, False),
    "null": (None,),
}


def declare(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema as a function's parameters, or that of its parameter `x`."""
    if schema.get("type") in ("object", ["object"]):
        return schema
    part = {word: value for word, value in schema.items() if word not in ("$defs", "$id")}
    properties = {"type": "object", "properties": {"x": part}, "required": ["x"]}
    return properties | ({"$defs": schema["$defs"]} if "$defs" in schema else {})


def draw(drawn: random.Random, schema: Any, root: dict[str, Any], depth: int = 0) -> Any:
    """Return a value of about the schema."""
    if depth > MAX_DEPTH:
        return None
    if "$ref" in schema:
        part = root
        for word in schema["$ref"].split("/")[1:]:
            part = part[word]
        return draw(drawn, part, root, depth + 1)
    for word in ("anyOf", "enum"):
        if word in schema:
            chosen = drawn.choice(schema[word])
            return chosen if word == "enum" else draw(drawn, chosen, root, depth + 1)
    kinds = schema.get("type", "object" if "properties" in schema else [*SAMPLES])
    kind = drawn.choice(kinds) if isinstance(kinds, list) else kinds
    if kind == "array":
        count = drawn.randint(schema.get("minItems", 0), schema.get("maxItems", 2))
        return [draw(drawn, schema.get("items", {}), root, depth + 1) for _ in range(count)]
    if kind != "object":
        return drawn.choice((*SAMPLES[kind], *filter(None, [schema.get("minimum")])))
    required = schema.get("required", ())
    return {
        key: draw(drawn, part, root, depth + 1)
        for key, part in schema.get("properties", {}).items()
        if key in required or (drawn.random() < 0.6)
    }


@functools.cache
def instances(name: str) -> list[Any]:
    """Return arguments that jsonschema accepts."""
    parameters, drawn = declare(SCHEMAS[name]), random.Random(name)
    validator = Draft202012Validator(parameters)
    found: list[Any] = []
    for _ in range(TRIES):
        arguments = draw(drawn, parameters, parameters)
        if arguments not in found and validator.is_valid(arguments):
            found.append(arguments)
    return found[:INSTANCES]


def test_no_schema_is_refused_and_each_has_arguments() -> None:
    faults = [name for name in SCHEMAS if find_tool_fault(declare(SCHEMAS[name])) is not None]
    assert faults == []
    sizes = map(measure_schema, SCHEMAS.values())
    steps = max(size.objects + sum(size.texts.values()) for size in sizes)
    assert steps < MAX_GRAMMAR_STEPS / 10
    assert [name for name in SCHEMAS if not instances(name)] == ["TestRangeConstraints 3"]


def change(drawn: random.Random, value: Any) -> Any:
    """Return arguments with one member dropped, or of another value."""
    others: tuple[Any, ...] = (None, True, "zz", -(10**15), 0.125, [], [1, "x"])
    if isinstance(value, dict) and value and drawn.random() < 0.8:
        key = drawn.choice([*value])
        rest = {name: part for name, part in value.items() if name != key}
        return rest if drawn.random() < 0.3 else {**value, key: change(drawn, value[key])}
    if isinstance(value, list) and value and drawn.random() < 0.7:
        return value * 9 if drawn.random() < 0.3 else [change(drawn, value[0]), *value[1:]]
    return drawn.choice(others)


# xgrammar 0.2.7 writes a number of an enumeration with 17 digits, and misses one end of a range.
UNREADABLE = {
    *("TestBasicTypes 5", "TestBasicTypes 24", "TestEnforcerCases 34", "TestEnforcerCases 36"),
    *("TestNumberFormat 3", "TestRangeConstraints 6"),
    # It takes a key of one alternative to be of the first.
    "TestAnyOf 2",
}


def test_the_grammar_judges_arguments_as_jsonschema_does() -> None:
    """No grammar accepts what the schema refuses; each accepts what it allows, in its order."""
    walks = pytest.importorskip("tests.parsers.walks")
    judged, refused = {True: 0, False: 0}, set()
    for name, schema in SCHEMAS.items():
        parameters, drawn = declare(schema), random.Random(name)
        tag = build_tag(HERMES, [("f", standardize(parameters))], forced=True)
        grammar = walks.xgrammar.Grammar.from_structural_tag(json.dumps(tag))
        validator = Draft202012Validator(parameters)
        good = instances(name)
        for arguments in [*good, *(change(drawn, one) for one in good for _ in range(12))]:
            call = json.dumps({"name": "f", "arguments": arguments}, ensure_ascii=False)
            accepted = walks.accepts(grammar, f"<tool_call>\n{call}\n</tool_call>")
            is_valid = validator.is_valid(arguments)
            judged[is_valid] += 1
            assert is_valid or not accepted, (name, arguments)
            if is_valid and not accepted:
                refused.add(name)
    assert refused <= UNREADABLE
    assert min(judged.values()) > 1000


def can_write(name: str, key: str) -> bool:
    """Return whether a format's calls can have a parameter of this name."""
    if name in PYTHON:
        return key.isidentifier()
    return name not in BARE or key == key.strip()


@every_family
def test_calls_are_read_as_their_schemas_say(name: str) -> None:
    """What is read is valid, and the format writes it as it writes what was meant."""
    family = FAMILIES[name]
    assert family.write is not None
    parsers = linear_parsers(ParserNames(family.tool_parser), Vocabulary())
    for schema, written in SCHEMAS.items():
        parameters = declare(written)
        tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
        for arguments in instances(schema):
            if (name, schema) == UNTYPED or not all(can_write(name, key) for key in arguments):
                continue
            output = family.write("", [("f", arguments)])
            parser = parsers(ParserRequest(tools=tools, tool_choice="auto"), [])
            events = join(parser.feed(output) + parser.finish())
            assert not [e for e in events if isinstance(e, ToolCallCut | ToolCallMalformed)], schema
            (call,) = join_outcome(events).calls
            assert Draft202012Validator(parameters).is_valid(call.arguments), schema
            assert family.write("", [("f", call.arguments)]) == output, schema
