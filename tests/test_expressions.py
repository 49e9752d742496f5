"""Our own regular expressions: none reads one text in many ways, which takes time without end."""

from __future__ import annotations

import ast
import importlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.test_house import SOURCES, relative

PARSER, COMPILER = (importlib.import_module(f"re.{name}") for name in ("_parser", "_compiler"))
SAMPLE = [*map(chr, range(128)), "\u00e9", "\u4e16"]


def find_expressions(path: Path) -> Iterator[str]:
    """Yield the expressions that a module gives to `re` as one literal."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re")),
                args=[ast.Constant(value=str(text)), *_],
            ):
                yield text


def begin(state: Any, items: Iterable[Any]) -> set[str]:
    """Return the characters of the sample with which a match may begin."""
    found: set[str] = set()
    for item in items:
        match str(item[0]), item[1]:
            case "BRANCH", (_, branches):
                return found.union(*(begin(state, branch) for branch in branches))
            case "SUBPATTERN", (*_, inner):
                return found | begin(state, inner)
            case (("MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT"), (least, _, inner)):
                found |= begin(state, inner)
                if least:
                    return found
            case (("LITERAL" | "NOT_LITERAL" | "ANY" | "IN"), _):
                one = COMPILER.compile(PARSER.SubPattern(state, [item]))
                return found.union(filter(one.fullmatch, SAMPLE))
    return found


def find_doubts(state: Any, items: Any, *, repeated: bool = False) -> Iterator[set[str]]:
    """Yield what two alternatives of a part without a bound may both begin with."""
    for name, value in items:
        match str(name), value:
            case "BRANCH", (_, branches):
                for one, other in itertools.combinations(branches, 2) if repeated else ():
                    yield begin(state, one) & begin(state, other)
                for branch in branches:
                    yield from find_doubts(state, branch, repeated=repeated)
            case "SUBPATTERN", (*_, inner):
                yield from find_doubts(state, inner, repeated=repeated)
            case (("MAX_REPEAT" | "MIN_REPEAT"), (_, most, inner)):
                endless = repeated or most is PARSER.MAXREPEAT
                yield from find_doubts(state, inner, repeated=endless)


def reads_in_many_ways(expression: str) -> bool:
    parsed = PARSER.parse(expression)
    return any(find_doubts(parsed.state, parsed))


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_alternatives_without_a_bound_begin_differently(path: Path) -> None:
    assert [text for text in find_expressions(path) if reads_in_many_ways(text)] == []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [(r"(?:\[\w*\]|[^()])*", True), (r"(?:\[\w*\]|[^()\[])*", False), (r"(?:a|ab)?", False)],
)
def test_the_check(expression: str, expected: bool) -> None:
    assert reads_in_many_ways(expression) is expected
