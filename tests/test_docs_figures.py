"""Figures of README.md and docs/why-backedge.md are those of the pages that measure them."""

from __future__ import annotations

import re

import pytest
from backedge.base import limits
from backedge.frontend.main import ENVIRONMENT
from backedge.parsers.formats.catalog import FORMATS
from backedge.postprocess.chunk_scheduler import MERGE_DELAYS
from backedge.tokenization.prompt_encoder import PART_CHARACTERS
from backedge.worker.flags import WorkerSettings
from backedge.worker.pool import CORES_PER_PROCESS, MAX_AUTO_PROCESSES

from tests.test_docs import read

WHY, PERFORMANCE = "docs/why-backedge.md", "docs/performance.md"


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


def find_table(page: str, *heading: str) -> list[list[str]]:
    """Return the rows of the first table with these columns."""
    return next(table[2:] for table in read_tables(page) if set(heading) <= set(table[0]))


def test_the_counts_of_cases_are_those_of_the_table() -> None:
    families = [row[1:] for row in find_table("docs/compatibility.md", "family")]

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


def test_the_readme_has_the_figures_of_the_tables() -> None:
    frontend = {
        (row[0], row[1]): row[3]
        for row in find_table(PERFORMANCE, "System", "Per request, ms")
        if row[2] == "true"
    }
    parsers = find_table(PERFORMANCE, "Family", "Parser")
    [ours] = [row for row in parsers if row[:2] == ["`qwen3_coder`", "Backedge"]]
    theirs = parsers[parsers.index(ours) + 1]
    rows = {row[0]: row[1:] for row in read_tables("README.md")[0][2:]}
    content, calls, parser = rows.values()
    assert content == [frontend["Rust frontend", "content"], frontend["Backedge", "content"]]
    for cell, system in zip(calls, ("Rust frontend", "Backedge"), strict=True):
        assert float(cell.partition(",")[0]) == float(frontend[system, "tools"])
    assert [cell.strip("> ") for cell in (theirs[4], ours[4])] == re.findall(
        r"\d+(?:\.\d+)?(?=,|$)", "\n".join(parser), re.MULTILINE
    )
    count = sum(format_.parses_tools for format_ in FORMATS)
    assert f"reads the calls of {count} formats" in " ".join(read("README.md").split())


def test_the_readme_is_short() -> None:
    assert len(read("README.md").split()) < 900


BALANCED = MERGE_DELAYS["balanced"]
DELAYS = (
    f"content {BALANCED.content * 1000:g} ms, reasoning {BALANCED.reasoning * 1000:g} ms, "
    f"tool arguments {BALANCED.tools * 1000:g} ms"
)
PROBE_S = limits.ENGINE_PROBE_S + limits.ENGINE_PROBE_INTERVAL_S
GIVEN_UP_S = limits.MAX_FAILED_PROBES * PROBE_S
# page, text whose figures are the code's
OF_THE_CODE = [
    ("docs/flags.md", DELAYS),
    (
        "docs/flags.md",
        f"one process for every {CORES_PER_PROCESS} cores, at most {MAX_AUTO_PROCESSES}",
    ),
    ("docs/flags.md", f"`--postprocess-on-error` applies. Default {WorkerSettings().deadline_s:g}"),
    ("docs/flags.md", f"needs more fails. Default {limits.PROCESS_MEMORY_MB}"),
    ("docs/recording.md", f"`--postprocess-record-mb MIB` | {limits.RECORDINGS_MB} |"),
    ("docs/turns.md", f"`--keep-turns-mb {limits.KEEP_TURNS_MB}`"),
    ("docs/requests.md", f"more than {ENVIRONMENT['DYN_HTTP_BODY_LIMIT_MB']} MB is a 413"),
    ("docs/tokenizers.md", f"for all models together, {limits.PROMPT_CACHE_MB} by default"),
    ("docs/tokenizers.md", f"runs for more than {limits.TEMPLATE_S:g} seconds a 400"),
    ("docs/tokenizers.md", f"prompts of less than {PART_CHARACTERS:,} characters"),
    ("docs/deploy.md", f"no etcd answers within {limits.ETCD_S:g} seconds"),
    ("docs/offline.md", f"A row has up to {limits.MAX_ROW_IMAGES} images"),
    (
        "docs/offline.md",
        f"may take {limits.IMAGE_FETCH_S:g} seconds and {limits.MAX_IMAGE_BYTES >> 20} MiB",
    ),
    ("docs/sidecar.md", f"after {limits.MAX_FAILED_PROBES} failed probes, some {GIVEN_UP_S:g} s"),
]


@pytest.mark.parametrize(("page", "text"), OF_THE_CODE)
def test_defaults_are_those_of_the_code(page: str, text: str) -> None:
    assert text in " ".join(read(page).split())
