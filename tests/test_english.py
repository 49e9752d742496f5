"""Plain English: patterns that made readers read a sentence twice stay out of pages and code.

`python -m tests.test_english [FILE...]` prints each hit: file, line, pattern, text. It reads pages,
and of Python files the docstrings, comments and strings of more than two words. Say who does what,
in that order: "Without watchers, take all deltas at the end", "The request fields that a template
may read". `ALLOWED` counts hits that a folder may have; it is empty, and should stay so.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.test_docs import PAGES, ROOT, tracked
from tests.test_house import SOURCES

# What begins a docstring or a comment without saying who does what; "Whether ..." is fine.
OPENINGS = re.compile(r"(?:What|Whom|Who|Whose|Of)\b|Whether (?:who|what|whom)\b")
PATTERNS = re.compile(
    r"\b(?:(?:is|are|be|was|were) none|none (?:is|are|was|were)|(?i:"
    r"nobody|whoever|nothing that|for nothing|what (?:is|was) made of|says? (?:so|of)"
    r"|(?<!left )(?<!leave )(?<!leaves )behind|so (?:does|do|did|is|are|has|have) (?:it|they)"
    r"|as (?:one|you) likes?|go(?:es)? with|c[ao]mes? into question|mend(?:s|ed|ing)?"
    r"|stands? (?:there|here|alone|in (?:its|the|a|no|front))"
    r"))\b"
)
# Hits that may stay, by folder.
ALLOWED: dict[str, int] = {}
FILES = [
    *(ROOT / page for page in (*PAGES, "SECURITY.md", "CHANGELOG.md")),
    *SOURCES,
    *(
        ROOT / name
        for name in tracked()
        if re.match(r"(?:benchmarks|examples|tools)/.*\.py$", name)
    ),
]


class Hit(NamedTuple):
    """A pattern and the passage around it. line: where the passage begins."""

    line: int
    pattern: str
    text: str


class Passage(NamedTuple):
    """Text between two breaks. opens: it is a docstring or a comment, held to `OPENINGS`."""

    line: int
    text: str
    opens: bool = False


def read_page(text: str) -> Iterator[Passage]:
    """Yield a page's paragraphs, without blocks of code, words in backticks and links' targets."""
    code = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
    text = code.sub(lambda block: "\n" * block[0].count("\n"), text)
    line = 1
    for paragraph in text.split("\n\n"):
        yield Passage(line, re.sub(r"`[^`]*`|\]\([^)]*\)", "x", paragraph))
        line += paragraph.count("\n") + 2


def read_code(source: str) -> Iterator[Passage]:
    """Yield a module's docstrings, comments and strings."""
    nodes = list(ast.walk(ast.parse(source)))
    with_docstring = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        node.body[0].lineno
        for node in nodes
        if isinstance(node, with_docstring) and ast.get_docstring(node) is not None
    }
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_docstring = node.lineno in docstrings
            if is_docstring or node.value.count(" ") > 1:
                yield Passage(node.lineno, re.sub(r"`[^`]*`", "x", node.value), is_docstring)
    yield from read_comments(source)


def read_comments(source: str) -> Iterator[Passage]:
    """Yield comments; those of consecutive lines are one."""
    begin, words, last = 0, list[str](), 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if token.start[0] != last + 1 and words:
            yield Passage(begin, " ".join(words), opens=True)
            words = []
        begin = begin if words else token.start[0]
        words.append(re.sub(r"`[^`]*`", "x", token.string.lstrip("# ")))
        last = token.start[0]
    if words:
        yield Passage(begin, " ".join(words), opens=True)


def find_hits(path: Path) -> list[Hit]:
    text = path.read_text(encoding="utf-8")
    hits = []
    for line, passage, opens in read_page(text) if path.suffix == ".md" else read_code(text):
        words = " ".join(passage.split())
        found = PATTERNS.findall(words)
        if opens and (opening := OPENINGS.match(words)):
            found.append(opening[0])
        hits += [Hit(line, pattern, words) for pattern in found]
    return hits


def count_by_folder() -> Counter[str]:
    return Counter(
        path.parent.relative_to(ROOT).as_posix() for path in FILES for _ in find_hits(path)
    )


def test_no_folder_gets_worse() -> None:
    worse = {
        folder: f"{count} hits, allowed: {ALLOWED.get(folder, 0)}"
        for folder, count in count_by_folder().items()
        if count > ALLOWED.get(folder, 0)
    }
    assert worse == {}


def test_hits_are_found() -> None:
    source = '"""What a file holds."""\n# It is for\n# nobody.\nx = "a line, and `behind` it"\n'
    passages = list(read_code(source))
    assert [passage.line for passage in passages] == [1, 4, 2]
    assert [bool(PATTERNS.search(text)) for _, text, _ in passages] == [False, False, True]
    assert passages[0].opens
    assert OPENINGS.match(passages[0].text)
    last = list(read_page("```\nnobody\n```\n\nWhoever\nand whoever\n"))[-1]
    assert (last.line, PATTERNS.findall(last.text)) == (5, ["Whoever", "whoever"])


def main(arguments: list[str]) -> None:
    if arguments == ["--table"]:
        lines = [f'    "{folder}": {hits},' for folder, hits in sorted(count_by_folder().items())]
    else:
        lines = [
            f"{path.relative_to(ROOT)}:{line}: {pattern!r}: {text[:120]}"
            for path in [Path(name).resolve() for name in arguments] or FILES
            for line, pattern, text in find_hits(path)
        ]
    sys.stdout.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main(sys.argv[1:])
