"""docs/upstream.md has a row for each known mistake of an engine's parsers, and no other row."""

from __future__ import annotations

import re

from backedge.engines.vllm.parsers import CANNOT_STREAM

from tests.engines.parsers.scenarios import SGLANG_ERRORS
from tests.parsers.cases import ENGINES
from tests.test_docs import read


def read_rows() -> set[tuple[str, str]]:
    """Return the names of parsers and their mistakes."""
    tables, _, _ = read("docs/upstream.md").partition("## Engines")
    rows = re.findall(r"^\| (.*`) \| (.+) \|$", tables, re.MULTILINE)
    return {
        (name, mistake.replace("`", "").replace(r"\|", "|"))
        for names, mistake in rows
        for name in re.findall(r"`([^`]+)`", names)
    }


def known_mistakes() -> set[tuple[str, str]]:
    """Return the same of the tests' tables."""
    differences = {
        (name, difference.why)
        for engine in ENGINES
        for key, difference in engine.differences.items()
        for name in (engine.cases[key].names.tool_call, engine.cases[key].names.reasoning)
        if name
    }
    scenarios = {(name, wrong.why) for wrong in SGLANG_ERRORS for name in wrong.names}
    return differences | scenarios | {(name, "gives nothing") for name in CANNOT_STREAM}


def test_the_page_has_the_known_mistakes() -> None:
    assert read_rows() == known_mistakes()
