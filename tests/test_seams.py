"""Nothing private of another project is touched but what a seam names."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.broken_seams import Row, list_rows
from tests.syntax import parse
from tests.test_house import ROOT, SOURCES, relative

TABLES = [
    importlib.import_module(f"backedge.engines.{name}.seams")
    for name in ("dynamo", "sglang", "transformers", "trtllm", "vllm")
    if (ROOT / "engines" / name / "seams.py").is_file()
]
ROWS = [row for table in TABLES for row in list_rows(table.SEAMS)]
# The names in rows, of which a touch must have one: parts of paths, and parameters by name.
DECLARED = {
    *(part for row in ROWS for part in row.use.path.split(".")),
    *(keyword for row in ROWS for keyword in row.use.keywords),
}
IMPORTED = {(row.use.module, row.use.path) for row in ROWS}
# Underscores that Python's documentation gives as public names, and what has no own name at all.
DOCUMENTED = {"_replace", "_asdict", "_fields", "_exit", "_make", "_"}
# Our names for an argparse.Namespace, whose `vars` argparse documents.
NAMESPACES = {"arguments", "flags"}
# Files that touch only what is ours or the user's, though the syntax does not show it.
OURS = {
    "tokenization/detokenizer/vocabulary.py": "a field of our BaseTokenizer",
    "tokenization/custom_tokenizer.py": "the user's module",
    "guided/guided_request.py": "a cached property of our request",
    "base/seams.py": "checks and replaces what the rows name",
}
# Functions that touch what a row names, without the name.
WITHOUT_A_NAME = {
    "engines/sglang/worker.py:native_detokenizers.start",
    "engines/transformers/offline.py:list_arguments",
    "engines/trtllm/worker.py:enable_once.validate_and_enable",
    "worker/flags.py:add_flags",
}


def owner_names(tree: ast.AST, prefix: str = "") -> Iterator[tuple[ast.AST, str]]:
    """Yield all nodes, each with the dotted name of the definition that it is in."""
    for node in ast.iter_child_nodes(tree):
        name = prefix
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}.{node.name}" if prefix else node.name
        elif not prefix and isinstance(node, ast.Assign | ast.AnnAssign):
            name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        yield node, name
        yield from owner_names(node, name)


def defined_names(tree: ast.AST) -> set[str]:
    """Return the names that a file defines, of functions, variables and attributes of `self`."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Store) and is_own(node.value):
                found.add(node.attr)
        elif hasattr(node, "name"):
            found.add(node.name)
    return found


def is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def is_private(name: object) -> bool:
    return (
        isinstance(name, str)
        and name.startswith("_")
        and not name.startswith("__")
        and name not in DOCUMENTED
    )


def without_annotations(tree: ast.AST) -> ast.AST:
    """Drop annotations, which are never evaluated."""
    for node in ast.walk(tree):
        if hasattr(node, "annotation"):
            node.annotation = None
        if hasattr(node, "returns"):
            node.returns = None
    return tree


def attribute_fault(node: ast.Attribute, of_file: set[str], of_all: set[str]) -> bool:
    if is_private(node.attr):
        return node.attr not in (of_all if is_own(node.value) else of_file)
    if node.attr == "__class__":
        return isinstance(node.ctx, ast.Store)
    if node.attr == "__dict__":
        return not is_own(node.value)
    return node.attr == "getsource" or (
        node.attr == "__new__" and not isinstance(node.value, ast.Call)
    )


def call_fault(node: ast.Call) -> bool:
    first = node.args[0] if node.args else None
    if isinstance(node.func, ast.Attribute):
        return node.func.attr == "send" and isinstance(first, ast.Constant) and not first.value
    if not isinstance(node.func, ast.Name) or first is None or is_own(first):
        return False
    last = first.attr if isinstance(first, ast.Attribute) else getattr(first, "id", "")
    if node.func.id in ("vars", "setattr", "delattr"):
        return last not in NAMESPACES
    second = node.args[1] if node.func.id in ("getattr", "hasattr") else None
    return isinstance(second, ast.Constant) and is_private(second.value)


def import_fault(node: ast.ImportFrom) -> bool:
    """Whether a name is private, or its module, and no row has it that is used in this file."""
    module = node.module or ""
    return node.level == 0 and any(
        is_private(part) and (module, alias.name) not in IMPORTED
        for alias in node.names
        for part in (*module.split("."), alias.name)
    )


def find_touches(source: str, of_all: set[str]) -> list[tuple[str, int, str]]:
    """Return where a file touches what is private: definition, line, text."""
    tree = without_annotations(ast.parse(source))
    of_file = defined_names(tree)
    return [
        (owner, node.lineno, ast.unparse(node))
        for node, owner in owner_names(tree)
        if (isinstance(node, ast.Attribute) and attribute_fault(node, of_file, of_all))
        or (isinstance(node, ast.Call) and call_fault(node))
        or (isinstance(node, ast.ImportFrom) and import_fault(node))
    ]


@functools.cache
def all_names() -> set[str]:
    return {name for path in SOURCES for name in defined_names(parse(path))}


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if path.name != "seams.py" and relative(path) not in OURS],
    ids=relative,
)
def test_what_is_private_is_touched_where_a_row_names_it(path: Path) -> None:
    touches = find_touches(path.read_text(encoding="utf-8"), all_names())
    unnamed = [
        f"{relative(path)}:{line} {text}"
        for owner, line, text in touches
        if text.rpartition(".")[2] not in DECLARED
        and f"{relative(path)}:{owner}" not in WITHOUT_A_NAME
    ]
    assert unnamed == []


TOUCHES = [
    "thing._field",
    "thing._field = 1",
    "self._of_the_base",
    "setattr(thing, name, 1)",
    "vars(thing)",
    "thing.__class__ = Other",
    "thing.__dict__",
    "object.__new__(Thing)",
    "Thing.__new__(Thing)",
    "inspect.getsource(thing)",
    "coroutine.send(None)",
    "getattr(thing, '_field', None)",
    "from dynamo._core import names",
    "from dynamo.llm import _names",
]


@pytest.mark.parametrize("source", TOUCHES)
def test_a_touch_is_found(source: str) -> None:
    assert [owner for owner, *_ in find_touches(f"def f():\n    {source}", {"_own"})] == ["f"]


@pytest.mark.parametrize(
    "source",
    [
        "self._own",
        "vars(arguments)",
        "pair._replace(a=1)",
        "event.__class__",
        "vars(self)",
        "sender.send(chunk)",
        "super().__new__(cls)",
        "from __future__ import annotations",
        "def _mine(): pass\nx._mine",
        "def f(x: a._b) -> a._c: pass",
    ],
)
def test_what_is_ours_or_public_is_none(source: str) -> None:
    assert find_touches(source, {"_own"}) == []


WORDS = {
    path: set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    for path in SOURCES
    if path.name != "seams.py"
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_used(row: Row) -> None:
    names = {row.use.path.rpartition(".")[2], *row.use.keywords}
    assert row.use.kind == "text" or any(not names.isdisjoint(words) for words in WORDS.values())


def test_features_that_our_code_asks_for_are_of_rows() -> None:
    constants = {
        value
        for table in TABLES
        for name, value in vars(table).items()
        if name.isupper() and isinstance(value, str) and not value.endswith((".", ":"))
    }
    assert constants - {row.name for row in ROWS} <= {row.seam.feature for row in ROWS}


def test_rows_are_different() -> None:
    keys = [(row.name, row.role, row.use.kind) for row in ROWS]
    assert len(keys) == len(set(keys))
