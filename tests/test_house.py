"""The house rules that no linter knows: tests named after modules, sizes, docstrings, ignores."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

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
# Modules without a test of their name, and why.
WITHOUT_TEST = {
    "offline/__main__.py": "calls `main` of offline/command.py; its tests start it",
    "testing/tokenizer_kit/samples.py": "texts only; the kit's tests read them",
    "testing/replay_worker/__main__.py": "calls `main` of the package; tests/e2e starts it",
    "tokenization/kit.py": "another name of testing/tokenizer_kit; its tests use it",
    "worker/replay.py": "another name of testing/replay_worker; tests/e2e starts it",
    "engines/sglang/types.py": "Protocols; tests/engines/test_types.py compares them",
    "engines/trtllm/types.py": "Protocols; tests/standin/test_signatures.py compares them",
    "engines/vllm/types.py": "Protocols; tests/engines/test_types.py compares them",
    **{
        f"engines/{name}/seams.py": "a table; tests/engines/test_seams.py breaks each of its rows"
        for name in ("dynamo", "sglang", "transformers", "trtllm", "vllm")
    },
    "base/engines.py": "each engine's tests load it through this",
    "offline/backends.py": "tests/offline/test_backend.py",
}
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 40
IGNORE = re.compile(r"#\s*(?:noqa|type: ignore)\b[^#]*")
REASON = re.compile(r"# noqa: [A-Z0-9, ]+ - \S|# type: ignore(?:\[[\w, -]+\])?  # \S")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def candidate_tests(path: Path) -> list[Path]:
    """Return where a module's test may stand; those of formats are in tests/parsers/families."""
    folder, stem = path.relative_to(ROOT).parent, path.stem.strip("_")
    found = [ROOT / "tests" / folder / f"test_{stem}.py"]
    if folder == Path("parsers/formats"):
        found.append(ROOT / "tests/parsers/families" / path.name)
    return found


def test_every_module_has_a_test_of_its_name() -> None:
    modules = {relative(path): path for path in SOURCES if path.name != "__init__.py"}
    without = {
        name
        for name, path in modules.items()
        if not any(test.is_file() for test in candidate_tests(path))
    }
    assert without == set(WITHOUT_TEST)


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if ast.get_docstring(node) is not None:
            docstring = node.body[0]
            lines -= (docstring.end_lineno or 0) - docstring.lineno + 1
        assert lines <= MAX_FUNCTION_LINES, f"{node.name} has {lines} lines"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_no_docstring_is_a_mere_pointer(path: Path) -> None:
    """A method that does what its base says has `@override` and no docstring."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            assert not (ast.get_docstring(node) or "").startswith("See "), node.name


@pytest.mark.parametrize("path", EVERYTHING, ids=relative)
def test_every_ignore_gives_its_reason(path: Path) -> None:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if path != Path(__file__) and IGNORE.search(line):
            assert REASON.search(line), f"line {number}: {line.strip()}"
