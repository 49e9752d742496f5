"""Findings as text, JSON and exit code."""

from __future__ import annotations

from typing import get_args

import click
import msgspec
import pytest
from backedge.base.terminal import format_line
from backedge.cli.doctor.findings import (
    COLOURS,
    EXIT_CODES,
    Finding,
    Severity,
    build_report,
    show_finding,
)

FIX = "python -m dynamo.vllm --model a-rather/long-name-of-a-model --tool-call-parser a-name"


def test_every_severity_has_a_colour_and_a_code() -> None:
    assert set(COLOURS) == set(EXIT_CODES) == set(get_args(Severity))


@pytest.mark.parametrize(
    ("severities", "code", "verdict"),
    [
        ((), 0, "0 errors, 0 warnings: it starts"),
        (("ok", "note"), 0, "0 errors, 0 warnings: it starts"),
        (("ok", "warning", "note"), 1, "0 errors, 1 warning: it starts"),
        (("error", "warning", "ok"), 2, "1 error, 1 warning: correct the errors first"),
    ],
)
def test_the_worst_finding_decides_code_and_verdict(severities, code, verdict) -> None:
    report = build_report([Finding(one, "t", "m") for one in severities], "it starts")
    assert (report.exit_code, report.verdict) == (code, verdict)


def test_text_has_the_fix_on_a_line_of_its_own() -> None:
    shown = show_finding(Finding("warning", "topic", "a message", "do this"))
    first, fix = map(format_line, shown)
    assert (click.unstyle(first), fix) == ("warning  topic: a message", "         fix: do this")
    assert first != click.unstyle(first)


def test_long_text_is_wrapped_at_spaces_only() -> None:
    lines = [*map(format_line, show_finding(Finding("note", "t", "word " * 60, FIX)))]
    assert all(len(click.unstyle(line)) <= 100 for line in lines)
    assert set(FIX.split()) <= set(" ".join(lines).split())


def test_json_leaves_an_empty_fix_out() -> None:
    encoded = msgspec.json.decode(msgspec.json.encode(Finding("ok", "t", "m")))
    assert encoded == {"severity": "ok", "topic": "t", "message": "m"}
