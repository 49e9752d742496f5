"""Which schemas and expressions an engine makes a large grammar of, judged by the steps."""

from __future__ import annotations

import itertools
import json
import re
import time
from typing import Any

import pytest
from backedge.base.limits import MAX_GRAMMAR_STEPS
from backedge.guided.grammar_size import (
    measure_pattern,
    measure_rules,
    measure_schema,
    measure_tag,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.engines.frontends.bad_requests import optional

# Expressions of every day, and the largest of each kind that are allowed.
USUAL = [
    "",
    r"^[a-zA-Z0-9_-]{1,64}$",
    r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
    r"^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?)?$",
    r"^(https?://)?([\da-z.-]+)\.([a-z.]{2,6})([/\w .-]*)*/?$",
    r"^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$",
    r"^[\w.+-]+@[\w-]+(\.[\w-]+)+$",
    r"^(.|\n){0,2000}$",
    r"^.{1,2500}$",
    r"^[a-z]{1,5000}$",
    r"^[a-z]{100,}$",
    "|".join(f"word{number}" for number in range(1000)),
    "[^a-z]" * 1000,
]
EXPLODING = [
    "[a-z]{1,10000}",
    "(ab){1,20000}",
    "(([a-z]{30}x){30}y){30}",
    "(?:(?P<n>[a-z]{1,99}){1,99}){1,99}",
    "(a?){1000}",
    "a?" * 100,
    "[a-z]*" * 100,
    "(a|b)?" * 100,
    "(|a)" * 100,
    "a{" + "9" * 5000 + "}",
    "a{,99999}",
]


@pytest.mark.parametrize("pattern", USUAL)
def test_usual_patterns_are_allowed(pattern: str) -> None:
    assert measure_pattern(pattern) <= MAX_GRAMMAR_STEPS
    assert measure_schema({"items": {"pattern": pattern}}).largest[0] == measure_pattern(pattern)


@pytest.mark.parametrize("pattern", EXPLODING)
def test_exploding_patterns_are_not(pattern: str) -> None:
    assert measure_pattern(pattern) > MAX_GRAMMAR_STEPS
    assert measure_rules(f"root ::= ({pattern})") > MAX_GRAMMAR_STEPS or "(?" in pattern


PIECES = ["a", r"\(", ".", "[a-z]", "[^a]", "(", "(?:", ")", "|", "?", "*", "+", "{2,5}", "{0,9}"]


@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join), st.integers(2, 9))
def test_a_copy_takes_as_much_as_what_is_written_out(pattern: str, count: int) -> None:
    """Counted and written copies are about alike, and neither takes less than one copy."""
    try:
        re.compile(pattern)
    except re.error:
        return
    once, group = measure_pattern(pattern), f"(?:{pattern})"
    counted, written = measure_pattern(f"{group}{{{count}}}"), measure_pattern(group * count)
    assert once <= counted <= 2 * written + count
    assert written <= 2 * counted + count


def test_objects_count_the_properties_that_may_follow_each() -> None:
    names = [f"p{number}" for number in range(100)]
    assert measure_schema(optional(100)).objects == 5050
    assert measure_schema({**optional(100), "required": names}).objects == 100
    assert measure_schema({**optional(100), "required": names[49:50]}).objects == 2 * 1275
    assert measure_schema(optional(100, maxProperties=7)).objects == 7 * 5050
    assert measure_schema(optional(100, minProperties=1)).objects == 100 * 5050


def test_what_is_repeated_is_compiled_once() -> None:
    part = {"type": "string", "maxLength": 255}
    schema = {"properties": {f"p{number}": part for number in range(50)}}
    assert len(measure_schema(schema).texts) == 1
    assert sum(measure_schema(schema).texts.values()) < MAX_GRAMMAR_STEPS / 10


@pytest.mark.parametrize(
    "schema",
    [
        {"required": 5, "properties": {"a": 5}},
        {"properties": [], "patternProperties": [{}], "pattern": 5, "maxLength": "x"},
        {"properties": {"a": {}}, "maxProperties": -5, "minLength": -5},
        {"properties": {"a": {}}, "maxProperties": float("inf"), "minLength": float("nan")},
        *([], True, None, 5),
    ],
)
def test_what_is_no_schema_takes_few_steps(schema: object) -> None:
    """In structural tags and on workers, nobody has checked them."""
    size = measure_tag({"structures": [{"schema": schema}], "pattern": 5, "max_chars": -5})
    assert 0 <= size.objects + sum(size.texts.values()) < 40_000


COSTS: list[dict[str, Any]] = [
    {"pattern": "^[a-z]{1,40}$"},
    {"pattern": "(([a-z]{1,5}x){1,5}y){1,5}"},
    {"pattern": "[a-z]?" * 20},
    {"pattern": ".{1,30}"},
    {"maxLength": 16},
    optional(150),
    optional(40, minProperties=20),
    optional(60, maxProperties=30),
]


def test_a_step_takes_an_engine_microseconds() -> None:
    """The weights: no kind of schema takes xgrammar far more time for a step than the others."""
    xgrammar = pytest.importorskip("xgrammar")
    characters = [chr(code) for code in range(32, 127)]
    words = ["".join(letters) for letters in itertools.product("aeinorst x", repeat=4)]
    info = xgrammar.TokenizerInfo([*characters, *words, "</s>"])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    each = {}
    for part in COSTS:
        schema = {"type": "object" if "properties" in part else "string", **part}
        size = measure_schema(schema)
        began = time.process_time()
        compiler.compile_json_schema(json.dumps(schema))
        took = time.process_time() - began
        each[json.dumps(schema)[:60]] = took / (size.objects + sum(size.texts.values()))
    assert max(each.values()) < 50e-6, each
