"""The pages name only files, modules, make targets and headings that exist."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.machine import require

ROOT = Path(__file__).parent.parent
# The change log tells of names that are gone, too.
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs" / "decisions").glob("*.md"),
    )
)
SKIPPED = re.compile(r'(?:skip\(|\breason=)\s*"([^"]+)"')
VERSIONS_PAGE = "docs/compatibility.md"
ENDINGS = r"(?:py|md|json|jsonl|svg|toml|sh)"
# Groups of entry points have names like modules'.
ENTRY_POINTS = {"backedge.formats"}
# Files of a model's folder, which the examples' one need not have.
MODEL_FILES = {"tekken.json"}


@cache
def tracked() -> frozenset[str]:
    """Return the repository's files and folders; the latter end in a slash."""
    command = [require("git"), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    files = {name for name in listed.splitlines() if (ROOT / name).exists()}
    folders = {f"{parent.as_posix()}/" for name in files for parent in Path(name).parents}
    return frozenset(files | folders)


def test_no_environment_is_in_the_repository() -> None:
    assert not [name for name in tracked() if name.startswith(".venv")]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def in_backticks(page: str) -> list[str]:
    without_blocks = re.sub(r"^```.*?^```", "", read(page), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", without_blocks)


def missing_files(names: list[str]) -> list[str]:
    """Return the names of files and folders in `names` that the repository does not have.

    A path counts if it begins with one of the repository's folders, a bare name if it ends as
    a source file does. Files called `my_...` are the reader's.
    """
    return [name for name in names if is_missing(name) and not Path(name).name.startswith("my_")]


@cache
def top_folders() -> tuple[str, ...]:
    return tuple(folder for folder in tracked() if re.fullmatch(r"[^/]+/", folder))


@cache
def bare_names() -> frozenset[str]:
    return frozenset({Path(path).name for path in tracked()} | MODEL_FILES)


def is_missing(name: str) -> bool:
    if name.startswith(top_folders()):
        is_path = re.fullmatch(r"[\w./-]+", name) is not None
        return is_path and name not in tracked() and f"{name}/" not in tracked()
    return bool(re.fullmatch(rf"[\w.-]+\.{ENDINGS}", name)) and name not in bare_names()


def is_module(name: str) -> bool:
    """Whether `name`, a dotted name below `backedge` or a folder of tools, is a module's."""
    path = "package" if name == "backedge" else name.removeprefix("backedge.").replace(".", "/")
    return f"{path}.py" in tracked() or f"{path}/" in tracked()


def missing_modules(text: str) -> list[str]:
    """Return what `text` names as `python -m ...` or `backedge....` and nothing is."""
    commands = re.findall(r"python -m\s+((?:backedge|benchmarks|tools|tests)[\w.]*)", text)
    found = [name for name in commands if not is_module(name.rstrip("."))]
    named = set(re.findall(r"`(backedge(?:\.\w+)+)`", text)) - ENTRY_POINTS
    # The last part may be a class or a function; a method has its class before it.
    return found + sorted(
        name
        for name in named
        if not is_module(name) and not is_module(re.sub(r"(\.[A-Z]\w*)?\.\w+$", "", name))
    )


def heading_anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: str) -> list[str]:
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", read(page)):
        if link.startswith(("http:", "https:")):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists() or (anchor and anchor not in heading_anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_files_exist(page: str) -> None:
    assert not missing_files(in_backticks(page))


@pytest.mark.parametrize("page", PAGES)
def test_named_tests_exist(page: str) -> None:
    for path, name in re.findall(r"(tests/[\w/]+\.py)::(\w+)", read(page)):
        # Some modules run the tests of another one.
        assert re.search(rf"^(?:async )?(?:def | {{4}}){name}\b", read(path), re.MULTILINE)


def test_all_reasons_to_skip_end_to_end_tests_are_told() -> None:
    listed = re.findall(r"^\| `(\w+\.py)`[^|]*\| ([^|]+) \|$", read(VERSIONS_PAGE), re.MULTILINE)
    reasons = [
        (path.name, reason)
        for path in (ROOT / "tests" / "e2e").glob("*.py")
        for reason in find_reasons(path.read_text(encoding="utf-8"))
    ]
    assert sorted(listed) == sorted(reasons)


def find_reasons(text: str) -> list[str]:
    """Return why tests are skipped: reasons, and the parts of a machine that they need."""
    needed = re.findall(r'\b(?:needs|require)\(("[^)]+")\)', text)
    return SKIPPED.findall(text) + [names.replace('"', "") for names in needed]


@pytest.mark.parametrize("page", PAGES)
def test_modules_exist(page: str) -> None:
    assert not missing_modules(read(page))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert not broken_links(page)


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_exist(page: str) -> None:
    makefile = read("Makefile")
    wanted = set(re.findall(r"`make ([\w-]+)", read(page)))
    assert {name for name in wanted if not re.search(rf"^{name}:", makefile, re.MULTILINE)} == set()


def test_what_is_missing_is_found() -> None:
    names = ["parsers/base.py", "parsers/none.py", "parsers/", "worker/none/", "none.py", "a b"]
    assert missing_files(names) == ["parsers/none.py", "worker/none/", "none.py"]
    text = "python -m backedge.frontend, python -m backedge.none, `backedge.worker.none.Thing`"
    assert missing_modules(text) == ["backedge.none", "backedge.worker.none.Thing"]
