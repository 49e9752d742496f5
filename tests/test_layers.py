"""Imports point one way, and the core does no I/O."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.syntax import parse

ROOT = Path(__file__).parent.parent
# A folder may import itself and those named here.
BELOW = {
    "base": set[str](),
    "parsers": {"base"},
    "guided": {"base", "parsers"},
    "tokenization": {"base", "parsers"},
    "templates": {"base", "parsers", "guided", "tokenization"},
    "postprocess": {"base", "parsers", "tokenization"},
}
CORE_FOLDERS = set(BELOW)
SIDES = ("worker", "frontend", "offline")
ALLOWED = {
    **BELOW,
    "recording": CORE_FOLDERS,
    **{side: {*CORE_FOLDERS, "recording"} for side in SIDES},
    "engines": {*CORE_FOLDERS, "recording", *SIDES},
    "testing": {*CORE_FOLDERS, "recording", *SIDES},
    "cli": {*CORE_FOLDERS, "recording", *SIDES, "testing"},
}
# The host of all engines: its Protocols may be imported by whoever stands above post-processing.
HOST = "backedge.engines.dynamo"
ABOVE_POSTPROCESSING = {*SIDES, "engines", "testing", "cli"}
# Awaiting, sockets, threads, clocks and processes have no place in a pure core.
IMPURE = {
    *("asyncio", "socket", "threading", "time", "subprocess"),
    *("multiprocessing", "concurrent", "zmq", "uvloop"),
}
CORE = ("parsers", "postprocess", "tokenization/detokenizer")
SOURCES = [path for layer in ALLOWED for path in sorted((ROOT / layer).rglob("*.py"))]


def relative_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def read_imports(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the absolute name of each module that a file imports from, and what it imports."""
    package = ("backedge", *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*parents, *([node.module] if node.module else [])))
            yield from ((base, alias.name) for alias in node.names)


def imports(path: Path) -> set[str]:
    """Return the absolute names of the modules that a file imports."""
    return {base for base, _ in read_imports(path)}


@pytest.mark.parametrize("path", SOURCES, ids=relative_name)
def test_imports_point_one_way(path: Path) -> None:
    layer = path.relative_to(ROOT).parts[0]
    ours = {name for name in imports(path) if name.startswith("backedge.")}
    if layer in ABOVE_POSTPROCESSING:
        ours = {name for name in ours if not name.startswith(HOST)}
    layers = {name.split(".")[1] for name in ours}
    assert layers <= ALLOWED[layer] | {layer}


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if "engines" in path.parts], ids=relative_name
)
def test_an_engine_imports_no_other(path: Path) -> None:
    engine = path.relative_to(ROOT).parts[1]
    others = {name for name in imports(path) if name.startswith("backedge.engines.")}
    assert {name.split(".")[2] for name in others} <= {engine, "dynamo"}


def module_name(path: Path) -> str:
    return ".".join(("backedge", *path.relative_to(ROOT).with_suffix("").parts))


MODULES = {module_name(path).removesuffix(".__init__"): path for path in SOURCES}


def imported_modules(path: Path) -> set[str]:
    """Return which of our modules a file imports, in functions and under TYPE_CHECKING as well.

    `from . import x` imports the package only if `x` is no module of its own.
    """
    names = ((base, f"{base}.{name}") for base, name in read_imports(path))
    found = {name if name in MODULES else base for base, name in names}
    return found & MODULES.keys()


def find_circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """Return the groups of modules that import each other, directly or through others."""

    def reach(start: str) -> set[str]:
        seen, waiting = set[str](), [start]
        while waiting:
            for name in imports[waiting.pop()] - seen:
                seen.add(name)
                waiting.append(name)
        return seen

    reached = {name: reach(name) for name in imports}
    circles = {
        frozenset(other for other in reached[name] if name in reached[other])
        for name in imports
        if name in reached[name]
    }
    return [set(circle) for circle in circles]


def test_no_modules_import_each_other() -> None:
    assert find_circles({name: imported_modules(path) for name, path in MODULES.items()}) == []


def test_a_circle_is_found() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set[str]()}
    assert find_circles(imports) == [{"b", "c"}]


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if relative_name(path).startswith(CORE)], ids=relative_name
)
def test_the_core_does_no_io(path: Path) -> None:
    assert not {name.split(".")[0] for name in imports(path)} & IMPURE


ADAPTERS = (
    *("engines/", "testing/replay_worker/", "testing/offline.py", "worker/plugin.py"),
    *("worker/metrics.py", "worker/engine_worker.py", "worker/request_check.py", "frontend/"),
    *("worker/llm_engine.py", "worker/remote_engine.py", "worker/sidecar.py"),
    *("worker/stock_frontends.py", "offline/vision.py", "offline/model_text.py"),
    "templates/transformers_tokenizers.py",
)


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if not relative_name(path).startswith(ADAPTERS)],
    ids=relative_name,
)
def test_engines_are_imported_by_adapters_only(path: Path) -> None:
    assert not {module.split(".")[0] for module in imports(path)} & {
        "vllm",
        "sglang",
        "dynamo",
        "torch",
    }


ENTRY_POINTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "entry-points"
]
LOADED = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*(name for name in sys.modules if name.partition(".")[0] == "backedge"))
"""


@pytest.mark.parametrize("group", ENTRY_POINTS)
def test_what_engines_load_imports_nothing_else_of_ours(group: str) -> None:
    names = {name.partition(":")[0] for name in ENTRY_POINTS[group].values()}
    packages = {".".join(parts) for each in names for parts in prefixes(each.split("."))}
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, *names], capture_output=True, text=True, check=True
    )
    assert set(ran.stdout.split()) == packages


def prefixes(parts: list[str]) -> Iterator[list[str]]:
    """Yield the beginnings of a name."""
    yield from (parts[:length] for length in range(1, len(parts) + 1))
