"""A field of a parser's object is written by its owner alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PARSERS = Path(__file__).parents[2] / "parsers"
NAMES = [path.relative_to(PARSERS).as_posix() for path in sorted(PARSERS.rglob("*.py"))]


def find_written(source: str) -> Iterator[str]:
    """Yield the fields of other objects that a module writes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            owner = ast.unparse(node.value)
            if owner not in {"self", "cls"}:
                yield ast.unparse(node)


@pytest.mark.parametrize("name", NAMES)
def test_no_module_writes_a_field_of_another_object(name: str) -> None:
    source = (PARSERS / name).read_text(encoding="utf-8")
    assert [*find_written(source)] == []


def test_such_a_write_is_found() -> None:
    source = "a.b.c = 1\na.d += 1\nself.e = a.f\nfor a.g in h: pass"
    assert sorted(find_written(source)) == ["a.b.c", "a.d", "a.g"]
