"""Writes the tables of docs/limits.md from base/limits.py: `python -m tools.limits_page --write`.

A constant of base/limits.py is followed by a string, its row: "unit: what is limited | what happens
beyond the limit". A string that begins with `#` opens a table. On the page a table follows
the mark `<!-- limits: NAME -->`. Without `--write` it only says whether the page is current.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "limits.md"
LIMITS = ROOT / "base" / "limits.py"
HEAD = "| What | Bound | Beyond it |\n|---|---|---|\n"
# No client and no operator meets these; the page has their size alone.
BRIEF, BRIEF_HEAD = "Inside a process", "| What | Bound |\n|---|---|\n"
TABLE = re.compile(r"<!-- limits: (?P<name>.*) -->\n\n(?:\|.*\n)*")


def read_tables(source: str) -> dict[str, str]:
    """Return the Markdown of each table, by its name."""
    names: dict[str, object] = {}
    exec(compile(source, str(LIMITS), "exec"), names)  # noqa: S102 - our own file
    tables: dict[str, str] = {}
    constant = table = ""
    for node in ast.parse(source).body[1:]:
        if isinstance(node, ast.Assign):
            constant = ast.unparse(node.targets[0])
        elif isinstance(node, ast.Expr) and isinstance(text := ast.literal_eval(node.value), str):
            if text.startswith("#"):
                table = text.removeprefix("#").strip()
                tables[table] = BRIEF_HEAD if table == BRIEF else HEAD
            else:
                unit, _, row = text.partition(": ")
                what, beyond = re.split(r"\s\| ", row)
                bound = f"{names[constant]:,.12g} {unit}"
                cells = (what, bound) if table == BRIEF else (what, bound, beyond)
                tables[table] += f"| {' | '.join(cells)} |\n"
    return tables


def write_page(page: str, source: str) -> str:
    """Return the page with its tables written anew. Raises `KeyError` for an unknown table."""
    tables = read_tables(source)
    return TABLE.sub(lambda found: f"<!-- limits: {found[1]} -->\n\n{tables[found[1]]}", page)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page")
    written = PAGE.read_text(encoding="utf-8")
    made = write_page(written, LIMITS.read_text(encoding="utf-8"))
    if parser.parse_args().write:
        PAGE.write_text(made, encoding="utf-8")
    elif made != written:
        sys.exit("docs/limits.md differs from base/limits.py: python -m tools.limits_page --write")


if __name__ == "__main__":
    main()
