"""Findings as text, JSON and exit code."""

from __future__ import annotations

from typing import get_args

import click
import msgspec
import pytest
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
    ("severities", "code"),
    [
        ((), 0),
        (("ok", "note"), 0),
        (("ok", "warning", "note"), 1),
        (("error", "warning", "ok"), 2),
    ],
)
def test_the_worst_finding_decides_the_exit_code(severities, code) -> None:
    assert build_report([Finding(one, "t", "m") for one in severities]).exit_code == code


def test_text_has_the_fix_on_a_line_of_its_own() -> None:
    shown = show_finding(Finding("warning", "topic", "a message", "do this"))
    assert click.unstyle(shown).splitlines() == [
        "warning  topic: a message",
        "         fix: do this",
    ]
    assert shown != click.unstyle(shown)


def test_long_text_is_wrapped_at_spaces_only() -> None:
    shown = click.unstyle(show_finding(Finding("note", "t", "word " * 60, FIX)))
    assert all(len(line) <= 100 for line in shown.splitlines())
    assert all(word in shown.split() for word in FIX.split())


def test_json_leaves_an_empty_fix_out() -> None:
    encoded = msgspec.json.decode(msgspec.json.encode(Finding("ok", "t", "m")))
    assert encoded == {"severity": "ok", "topic": "t", "message": "m"}
