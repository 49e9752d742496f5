"""Findings of doctor with severity and fix, shown as text, JSON and an exit code."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Literal

import click
import msgspec

Severity = Literal["ok", "note", "warning", "error"]
COLOURS: dict[Severity, str] = {
    "ok": "green",
    "note": "cyan",
    "warning": "yellow",
    "error": "red",
}
# For scripts: no action needed, something to check, something that does not work.
EXIT_CODES: dict[Severity, int] = {"ok": 0, "note": 0, "warning": 1, "error": 2}
LABEL_WIDTH = 9
LINE_WIDTH = 100


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one check.

    topic: the subject in a word or two. fix: what to change; "" if nothing.
    """

    severity: Severity
    topic: str
    message: str
    fix: str = ""


class Report(msgspec.Struct, frozen=True):
    """All findings, and the exit code."""

    findings: list[Finding]
    exit_code: int


def build_report(findings: Sequence[Finding]) -> Report:
    """Return the report; its exit code is that of the worst finding."""
    codes = [EXIT_CODES[finding.severity] for finding in findings]
    return Report(list(findings), max(codes, default=0))


def show_finding(finding: Finding) -> str:
    """Return a finding as lines of text, with colours."""
    indent = " " * LABEL_WIDTH
    label = click.style(f"{finding.severity:{LABEL_WIDTH}}", fg=COLOURS[finding.severity])
    text = _wrap(f"{finding.topic}: {finding.message}", indent).removeprefix(indent)
    return label + text + (f"\n{_wrap(f'fix: {finding.fix}', indent)}" if finding.fix else "")


def _wrap(text: str, indent: str) -> str:
    """Wrap `text` into lines, without breaking commands and paths, so they can be copied."""
    return textwrap.fill(
        text,
        LINE_WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
