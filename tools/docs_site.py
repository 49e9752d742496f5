"""A hook of mkdocs: adds the pages and files of the repository that docs/ links to.

The pages are written for the repository, where README.md links to docs/ and docs/ to examples/.
In the site, the pages of the root are next to those of docs/, and linked files are copied to
`files/`.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
DOCS = "docs/"
# Pages of the repository's root, and where they are in the site.
ROOT_PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
CELL = re.compile(r"<td\b.*?</td>", re.DOTALL)
EXTERNAL = ("http:", "https:", "mailto:", "#")


def repository_path(site_path: str) -> str:
    """Return the path of a site's page in the repository."""
    for path, page in ROOT_PAGES.items():
        if page == site_path:
            return path
    return DOCS + site_path


def site_path(path: str) -> str:
    """Return a file's path in the site. path: from the repository's root."""
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    if (ROOT / path).is_dir():
        return site_path(f"{path}/README.md")
    return path.removeprefix(DOCS) if path.startswith(DOCS) else f"files/{path}"


def targets(markdown: str, path: str) -> list[str]:
    """Return the repository's files that a page links to. path: of the page."""
    links = [link.partition("#")[0] for _, link, _ in LINK.findall(markdown)]
    return [resolve(link, path) for link in links if link and not link.startswith(EXTERNAL)]


def resolve(link: str, path: str) -> str:
    """Return the file that a relative link on the page `path` leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def rewrite(markdown: str, path: str) -> str:
    """Convert a page's links to the site's paths. path: of the page."""
    start = posixpath.dirname(site_path(path))

    def replace(match: re.Match[str]) -> str:
        before, link, after = match.groups()
        if link.startswith(EXTERNAL):
            return match.group()
        name, sharp, anchor = link.partition("#")
        target = posixpath.relpath(site_path(resolve(name, path)), start or ".")
        return f"{before}{target}{sharp}{anchor}{after}"

    return LINK.sub(replace, markdown)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the root's pages, and the files that any page links to."""
    pages = [repository_path(file.src_uri) for file in files if file.is_documentation_page()]
    for path in ROOT_PAGES:
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, site_path(path), content=text))
    linked = {
        target
        for path in [*pages, *ROOT_PAGES]
        for target in targets((ROOT / path).read_text(encoding="utf-8"), path)
    }
    for target in sorted(linked):
        place = site_path(target)
        if place.startswith("files/") and (ROOT / target).is_file():
            source = str(ROOT / target)
            files.append(File.generated(config, place, abs_src_path=source))
    return files


def on_page_content(html: str, **_: object) -> str:
    """Return the page without the backslashes that a table in Markdown needs before `|`."""
    return CELL.sub(lambda cell: cell.group().replace("\\|", "|"), html)


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Return the page with the site's links."""
    return rewrite(markdown, repository_path(page.file.src_uri))
