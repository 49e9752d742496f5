"""Imports point one way, and the core does no I/O."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ["parsers", "postprocess", "worker", "frontend"]
ALLOWED = {
    "parsers": {"parsers"},
    "postprocess": {"parsers", "postprocess"},
    "worker": {"parsers", "postprocess", "worker"},
    "frontend": {"parsers", "postprocess", "frontend"},
}
# Awaiting, sockets, threads, clocks and processes have no place in a pure core.
IMPURE = {"asyncio", "socket", "threading", "time", "subprocess", "multiprocessing", "concurrent", "zmq", "uvloop"}
CORE = ["parsers", "postprocess"]
SOURCES = [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]


def imports(path: Path) -> set[str]:
    """Return the absolute names of the modules that a file imports."""
    package = ("backedge", *path.relative_to(ROOT).parent.parts)
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) + "." if node.level else ""
            names.add(base + (node.module or ""))
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_point_one_way(path: Path) -> None:
    layer = path.relative_to(ROOT).parts[0]
    # A worker detokenizes with the tokenizer that encoded, which may be the user's.
    shared = "backedge.frontend.tokenizers"
    names = {name for name in imports(path) if name.startswith("backedge.") and not name.startswith(shared)}
    ours = {name.split(".")[1] for name in names if name.split(".")[1]}
    # The worker that replays recordings renders prompts as the frontend does.
    embedded = {"frontend"} if path.name == "embedded.py" else set()
    assert ours <= ALLOWED[layer] | embedded


@pytest.mark.parametrize(
    "path",
    # The pool is what runs the core elsewhere.
    [path for path in SOURCES if path.relative_to(ROOT).parts[0] in CORE and path.parent.name != "pool"],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_the_core_does_no_io(path: Path) -> None:
    assert not {name.split(".")[0] for name in imports(path)} & IMPURE


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_engines_are_imported_by_adapters_only(path: Path) -> None:
    worker = {f"worker/{name}.py" for name in ("adapter", "vllm", "sglang", "plugin", "metrics", "embedded")}
    adapters = worker | {f"parsers/native/{name}.py" for name in ("vllm", "sglang", "sglang_reasoning")}
    name = path.relative_to(ROOT).as_posix()
    if name in adapters or name.startswith("frontend/"):
        return
    assert not {module.split(".")[0] for module in imports(path)} & {"vllm", "sglang", "dynamo", "torch"}


def test_the_engines_adapters_share_no_block_of_code() -> None:
    vllm, sglang = (blocks(ROOT / "worker" / f"{engine}.py", lines=6) for engine in ("vllm", "sglang"))
    assert not vllm & sglang


def blocks(path: Path, lines: int) -> set[tuple[str, ...]]:
    """Return all runs of so many lines of code."""
    code = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return {tuple(code[start : start + lines]) for start in range(len(code) - lines + 1)}
