"""The house rules that no linter knows: sizes, docstrings, ignores."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.syntax import parse

ROOT = Path(__file__).parent.parent
FOLDERS = (
    *("base", "parsers", "guided", "tokenization", "templates", "postprocess", "recording"),
    *("worker", "frontend", "offline", "engines", "testing", "cli"),
)
SOURCES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
EVERYTHING = [
    *SOURCES,
    *(
        path
        for folder in ("benchmarks", "deploy", "examples", "tests", "tools")
        for path in sorted((ROOT / folder).rglob("*.py"))
    ),
]
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 40
MAX_LINE = 100  # pragmas included, which no linter counts
MAX_COMPLEXITY = 12
MAX_ANY = 89
BRANCHES = (
    ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Assert,
    ast.match_case,
)  # fmt: skip
IGNORE = re.compile(r"#\s*(?:noqa|type: ignore)\b[^#]*")
# Names with an underscore that are public: of named tuples, and of `os`.
PUBLIC = {"_asdict", "_exit", "_fields", "_make", "_replace"}
MAX_PRIVATE_IN_TESTS = 32
REASON = re.compile(r"# noqa: [A-Z0-9, ]+ - \S|# type: ignore(?:\[[\w, -]+\])?  # \S")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_files_are_short() -> None:
    lines = {relative(path): len(path.read_text("utf-8").splitlines()) for path in EVERYTHING}
    assert {name: count for name, count in lines.items() if count > MAX_FILE_LINES} == {}


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_functions_are_short(path: Path) -> None:
    for node in ast.walk(parse(path)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if ast.get_docstring(node) is not None:
            docstring = node.body[0]
            lines -= (docstring.end_lineno or 0) - docstring.lineno + 1
        assert lines <= MAX_FUNCTION_LINES, f"{node.name} has {lines} lines"


def complexity(function: ast.AST) -> int:
    """Count the ways through a function as Radon does: boolean operators count, closures too."""
    count = 1
    for node in ast.walk(function):
        if isinstance(node, BRANCHES):
            count += 1
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            count += 1 + len(node.ifs)
    return count


@pytest.mark.parametrize("path", [*SOURCES, *(ROOT / "deploy").rglob("*.py")], ids=relative)
def test_functions_are_simple_and_lines_are_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert complexity(node) <= MAX_COMPLEXITY, node.name
    assert [line for line in text.splitlines() if len(line) > MAX_LINE] == []


def test_complexity_counts_what_branches() -> None:
    code = "def f():\n if a and b or c:\n  pass\n return [x for x in y if x and z]"
    assert complexity(ast.parse(code)) == 7


def test_any_is_rare() -> None:
    names = (
        node
        for path in SOURCES
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Name) and node.id == "Any"
    )
    assert sum(1 for _ in names) <= MAX_ANY


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_no_docstring_is_a_mere_pointer(path: Path) -> None:
    """A method that does what its base says has `@override` and no docstring."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            assert not (ast.get_docstring(node) or "").startswith("See "), node.name


@pytest.mark.parametrize("path", EVERYTHING, ids=relative)
def test_every_ignore_gives_its_reason(path: Path) -> None:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if path != Path(__file__) and IGNORE.search(line):
            assert REASON.search(line), f"line {number}: {line.strip()}"


def is_private(name: object) -> bool:
    if not isinstance(name, str):
        return False
    last = name.rpartition(".")[2]
    return last.startswith("_") and not last.startswith("__") and last not in {"_", *PUBLIC}


def list_private(node: ast.AST) -> list[str]:
    """Return the private names of others that a node of a syntax tree reaches into."""
    found: list[object] = []
    match node:
        case ast.Attribute(value=ast.Name(id="self" | "cls")):
            pass
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
            pass
        case ast.Attribute(attr=name):
            found = [name]
        case ast.ImportFrom(module=module, names=names):
            found = [*(module or "").split("."), *(alias.name for alias in names)]
        case ast.Import(names=names):
            found = [part for alias in names for part in alias.name.split(".")]
        case ast.Call(func=ast.Name(id=caller) | ast.Attribute(attr=caller), args=given):
            if caller in ("getattr", "setattr", "delattr", "hasattr", "patch", "object"):
                found = [argument.value for argument in given if isinstance(argument, ast.Constant)]
        case ast.Subscript(
            value=ast.Call(func=ast.Name(id="vars")), slice=ast.Constant(value=name)
        ):
            found = [name]
    return [str(name) for name in found if is_private(name)]


def test_tests_reach_into_few_private_names() -> None:
    """They try what goes in and what comes out; most that are left are other projects'."""
    found = {
        relative(path): names
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if "standin" not in path.parts
        for tree in [parse(path)]
        if (names := [name for node in ast.walk(tree) for name in list_private(node)])
    }
    assert sum(map(len, found.values())) <= MAX_PRIVATE_IN_TESTS, found
