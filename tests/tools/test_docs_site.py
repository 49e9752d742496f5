"""The site of docs/: every link and heading is there, every page is in the menu, and no page asks
another host for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import pytest

pytest.importorskip("mkdocs", reason="the site's generator is in the extra `docs`")
pytest.importorskip("material", reason="the site's theme is in the extra `docs`")
from tests.cli.browser import browse
from tests.machine import require
from tools import docs_site

ROOT = Path(__file__).parents[2]
# What a browser fetches by itself; a link that a reader follows is none of it.
FETCHED = re.compile(
    r"""<(?:link|script|img|iframe|source)\b[^>]*?\b(?:src|href)=["']?(?:https?:)?//[^"'\s>]+"""
    r"""|url\(["']?(?:https?:)?//[^)]+|@import[^;]+"""
)


# What is wider than the window, unless a box of its own scrolls.
CLIPPED = """[...document.querySelectorAll('.md-content *')].filter(each => {
  if (each.getBoundingClientRect().right <= innerWidth + 1) return false
  for (let box = each; box instanceof Element; box = box.parentElement)
    if (['auto', 'scroll'].includes(getComputedStyle(box).overflowX)) return false
  return true
}).map(each => each.outerHTML.slice(0, 80))"""


def build(target: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)]
    return subprocess.run(
        [*command, *flags],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site."""
    target = tmp_path_factory.mktemp("docs") / "site"
    built = build(target)
    assert built.returncode == 0, built.stderr
    return target


MENU = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
USERS = re.findall(r"\S+\.md", MENU.partition("\n  - Project:\n")[0])


def test_the_users_menu_is_short() -> None:
    assert MENU.startswith("  - Guide:\n")
    assert re.findall(r"^  - (.+):$", MENU, re.MULTILINE) == [
        "Guide",
        "Project",
        "For contributors",
    ]
    assert len(USERS) <= 15


def test_a_page_of_the_menu_links_to_each_page_of_detail() -> None:
    linked = set()
    for page in USERS:
        path = docs_site.repository_path(page)
        linked.update(docs_site.targets((ROOT / path).read_text(encoding="utf-8"), path))
    details = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert {path for path in details if docs_site.site_path(path) not in MENU} <= linked


def test_every_page_is_there(site: Path) -> None:
    pages = [*docs_site.ROOT_PAGES.values()]
    pages += [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    for page in pages:
        name = re.sub(r"(?:^|(?<=/))(?:index|README)$", "", page.removesuffix(".md"))
        assert (site / name / "index.html").is_file(), page


def test_linked_files_come_along(site: Path) -> None:
    assert (site / "files" / "examples" / "my_tokenizer.py").is_file()
    assert (site / "inspect-light.png").is_file()


def test_no_other_host_is_asked(site: Path) -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    texts |= {path: path.read_text(encoding="utf-8") for path in site.rglob("*.css")}
    assert texts
    assert {path: found for path, text in texts.items() if (found := FETCHED.findall(text))} == {}


def test_no_code_has_the_backslash_of_a_table(site: Path) -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in site.rglob("index.html")}
    cells = {path: re.findall(r"<td\b.*?</td>", text, re.DOTALL) for path, text in texts.items()}
    assert any("|" in cell for found in cells.values() for cell in found)
    assert [cell for found in cells.values() for cell in found if "\\|" in cell] == []


# what a reader searches for, the page on which a result is
SEARCHED = [
    ("--keep-turns", "turns/"),
    ("--vllm-processing", "compatibility/"),
    ("-k deploy", "deploy/"),
    ("drain", "deploy/"),
    ("SIGTERM", "deploy/"),
    ("grace", "deploy/"),
    ("helm", "deploy/"),
    ("traces", "metrics/"),
]
RESULTS = "[...document.querySelectorAll('.md-search-result__link')].map(each => each.href)"


def test_the_search_finds_what_a_reader_types(site: Path) -> None:
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with browse(require("chromium")) as browser:
            for words, page in SEARCHED:
                browser.open(f"http://127.0.0.1:{server.server_port}/?q={quote(words)}")
                browser.wait(f"{RESULTS}.some(each => each.includes('/{page}'))")
        server.shutdown()


def test_a_phone_shows_all(site: Path) -> None:
    clipped = {}
    with browse(require("chromium")) as browser:
        for page in [*sorted(site.glob("*/index.html")), site / "index.html"]:
            browser.open(page, 390, 844)
            assert browser.js("document.documentElement.scrollWidth") == 390, page
            clipped[page.parent.name] = browser.js(CLIPPED)
    assert {name: found for name, found in clipped.items() if found} == {}


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://example.org/x.js">',
        "<link rel=stylesheet href=//fonts.example.org/css>",
        "@import 'https://example.org/x.css';",
        "body{background:url(https://example.org/x.png)}",
    ],
)
def test_what_would_be_fetched_is_found(text: str) -> None:
    assert FETCHED.search(text)


# page, link in it, link in the site
LINKS = [
    ("README.md", "docs/limits.md#requests", "limits.md#requests"),
    ("README.md", "examples/my_engine.py", "files/examples/my_engine.py"),
    ("README.md", "docs/decisions/", "decisions/README.md"),
    ("docs/trtllm.md", "../README.md#mixed-fleets", "index.md#mixed-fleets"),
    ("docs/requests.md", "limits.md", "limits.md"),
    ("docs/decisions/0001-x.md", "../../examples/my_engine.py", "../files/examples/my_engine.py"),
    ("docs/decisions/0001-x.md", "../limits.md", "../limits.md"),
    ("docs/limits.md", "#requests", "#requests"),
    ("docs/limits.md", "https://example.org/x.md", "https://example.org/x.md"),
]


@pytest.mark.parametrize(("page", "link", "expected"), LINKS)
def test_links_lead_to_the_same_place_in_the_site(page: str, link: str, expected: str) -> None:
    assert docs_site.rewrite(f"see [this]({link}).", page) == f"see [this]({expected})."
