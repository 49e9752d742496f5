"""Figures of the docs are those of the code, or stand beside the command that measures them."""

from __future__ import annotations

import re

import pytest
from backedge.base import limits
from backedge.frontend.main import ENVIRONMENT
from backedge.parsers.formats.catalog import FORMATS
from backedge.postprocess.settings import MERGE_DELAYS, PostprocessSettings
from backedge.testing.tokenizer_kit.samples import LONG_CHARACTERS
from backedge.tokenization.prompt_cache import PART_CHARACTERS
from backedge.worker.metrics import MEASURED_ONE_IN
from backedge.worker.pool import CORES_PER_PROCESS, MAX_AUTO_PROCESSES

from tests.test_docs import ROOT, read

DOCS = ROOT / "docs"
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
    # Each cell has the figure with a stream, and the one without.
    frontend = {
        (row[0], row[1]): row[2].partition(",")[0]
        for row in find_table(PERFORMANCE, "System", "Per request, ms")
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
DELAYS_S = (
    f"`balanced` {BALANCED.content:g} s for content, {BALANCED.reasoning:g} s for reasoning, "
    f"{BALANCED.tools:g} s for tools and {BALANCED.tokens:g} s for none"
)
PROBE_S = limits.ENGINE_PROBE_S + limits.ENGINE_PROBE_INTERVAL_S
GIVEN_UP_S = limits.MAX_FAILED_PROBES * PROBE_S
RULES = read("deploy/kubernetes/monitoring/rules.yaml")
LOOKUP_MS = limits.TURN_LOOKUP_MS


def read_threshold(metric: str) -> str:
    """Return what an alert compares a metric with."""
    return str(re.findall(rf"{metric}\b.*?\) > (\d+)$", RULES, re.MULTILINE)[0])


def read_constant(path: str, name: str) -> int:
    return int(re.findall(rf"\b{name} = (\d+)", read(path))[0])


# page, text whose figures are the code's
OF_THE_CODE = [
    ("docs/flags.md", DELAYS),
    (
        "docs/flags.md",
        f"one process for every {CORES_PER_PROCESS} cores, at most {MAX_AUTO_PROCESSES}",
    ),
    (
        "docs/flags.md",
        f"`--postprocess-on-error` applies. Default {PostprocessSettings().deadline_s:g}",
    ),
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
    ("docs/metrics.md", DELAYS_S),
    ("docs/metrics.md", f"delay of `balanced` is {BALANCED.content:g} s"),
    ("docs/metrics.md", f"those of {PART_CHARACTERS:,} characters and more"),
    ("docs/metrics.md", f"one request in {MEASURED_ONE_IN} is measured"),
    ("docs/metrics.md", f"waited for more than {read_threshold('wait_seconds')} seconds"),
    ("docs/metrics.md", f"More than {read_threshold('in_flight > 0')} tokens of each request"),
    ("docs/metrics.md", f"At {limits.MAX_BACKLOG} tokens the worker stops reading"),
    ("docs/recording.md", f"the last {limits.TAIL_TOKENS:,} tokens of prompts"),
    ("docs/recording.md", f"its last {limits.TAIL_TOKENS:,} tokens, redacted"),
    ("docs/requests.md", f"`n` 1 to {limits.MAX_CHOICES}"),
    ("docs/requests.md", f"`top_logprobs` 0 to {limits.MAX_TOP_LOGPROBS}"),
    (
        "docs/requests.md",
        f"at most {read_constant('engines/sglang/worker.py', 'MAX_DELIVERED_OUTPUTS')} tokens at",
    ),
    ("docs/tokenizers.md", f"a queue of {limits.WAITING_PER_THREAD:,} prompts for each"),
    ("docs/tokenizers.md", f"a document of {LONG_CHARACTERS:,} characters"),
    ("docs/deploy.md", f"cannot be started for {limits.POOL_ABSENT_S} seconds"),
    ("docs/offline.md", f"a list of up to {limits.MAX_EMBEDDED_INPUTS:,} of these"),
    ("docs/offline.md", f"Rows with {limits.MAX_HELD_INPUTS} inputs or more"),
    ("docs/turns.md", f"nor one over {limits.MAX_TURN_BYTES >> 20} MiB"),
    ("docs/turns.md", f"A look-up takes at most {LOOKUP_MS} ms"),
    ("docs/turns.md", f"waits for {LOOKUP_MS // 2} ms"),
    ("docs/turns.md", f"asks for {limits.MAX_FETCHED_TURNS} answers at most"),
    ("docs/turns.md", f"`--keep-turns-expiry {limits.KEEP_TURNS_EXPIRY_S}`"),
    ("docs/flags.md", f"`--prompt-cache-mb {limits.PROMPT_CACHE_MB}`"),
    (
        "docs/inspect.md",
        f"the first {read_constant('cli/inspect/assets/page.js', 'PRINTED'):,} tokens",
    ),
]


@pytest.mark.parametrize(("page", "text"), OF_THE_CODE)
def test_defaults_are_those_of_the_code(page: str, text: str) -> None:
    assert text.casefold() in " ".join(read(page).split()).casefold()


UNITS = r"us|ms|s|seconds?|minutes?|hours?|%|KB|[MG]i?B|bytes?|lines"
FIGURE = re.compile(rf"(?<![\w.-])\d[\d,.]*(?: to \d[\d,.]*)? (?:{UNITS})\b")
# Pages of measurements, each with its command; of limits; of what others wrote or do.
OWN_FIGURES = ("performance", "limits", "pitfalls", "upstream")
# What a reader sets or adds up on the page.
ON_THE_PAGE = {("docs/deploy.md", "60 seconds")}


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        *(f"docs/{path.name}" for path in DOCS.glob("*.md") if path.stem not in OWN_FIGURES),
    ],
)
def test_a_figure_is_the_codes_or_stands_beside_its_command(page: str) -> None:
    """No page repeats from memory what another one measures."""
    known = " ".join(text for of, text in OF_THE_CODE if of == page)
    prose = re.sub(r"^```.*?^```$", "", read(page), flags=re.MULTILINE | re.DOTALL)
    loose = [
        figure
        for section in re.split(r"^#", prose, flags=re.MULTILINE)
        if "benchmarks." not in section
        for figure in FIGURE.findall(" ".join(section.split()))
        if figure not in known and (page, figure) not in ON_THE_PAGE
    ]
    assert loose == []
