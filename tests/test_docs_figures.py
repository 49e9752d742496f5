"""The figures of docs/why-backedge.md stand in docs/performance.md and docs/compatibility.md."""

from __future__ import annotations

import re

from tests.test_docs import read

WHY, PERFORMANCE = "docs/why-backedge.md", "docs/performance.md"
# The one table whose measurement the page itself describes.
OWN = "vLLM's derender |"


def read_tables(page: str) -> list[list[list[str]]]:
    """Return the tables of a page: rows of cells, the heading first, without bold type."""
    blocks = re.findall(r"(?:^\|.*\n)+", read(page), re.MULTILINE)
    return [
        [
            [cell.strip().replace("**", "") for cell in line.strip("|\n ").split("|")]
            for line in block.splitlines()
        ]
        for block in blocks
    ]


def numbers(cells: list[str]) -> list[float]:
    found = [re.fullmatch(r"(?:> )?(\d[\d,.]*)", cell) for cell in cells]
    return [float(match.group(1).replace(",", "")) for match in found if match]


def test_figures_are_those_that_were_measured() -> None:
    measured = {
        number for table in read_tables(PERFORMANCE) for row in table for number in numbers(row)
    }
    checked = 0
    for table in read_tables(WHY):
        if OWN in " | ".join(table[0]) + " |":
            continue
        for row in table[2:]:
            figures = numbers(row)
            if table[0][-1] == "Both":
                *figures, both = figures
                assert both == sum(figures), row
            assert set(figures) <= measured, row
            checked += len(figures)
    assert checked > 30


def test_the_counts_of_cases_are_those_of_the_table() -> None:
    (table,) = [table for table in read_tables("docs/compatibility.md") if "family" in table[0]]
    families = [row[1:] for row in table[2:]]

    def add(column: int) -> tuple[int, int]:
        rows = [row for row in families if row[column] != "-"]
        return sum(int(row[column].split()[0]) for row in rows), sum(int(row[0]) for row in rows)

    (ours, cases), (vllm, of_vllm), (sglang, of_sglang) = (add(column) for column in (1, 2, 3))
    text = " ".join(read(WHY).split())
    wanted = (
        f"{cases:,} parser cases in {len(families)} families, ours read {ours:,} as expected, "
        f"vLLM's {vllm:,} of the {of_vllm:,} for which it has a parser, "
        f"SGLang's {sglang:,} of {of_sglang:,}"
    )
    assert wanted in text
