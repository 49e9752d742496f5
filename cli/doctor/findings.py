"""Findings of doctor with severity and fix, shown as text, JSON and an exit code."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from ...base.terminal import Line, Styled

Severity = Literal["ok", "note", "warning", "error"]
COLOURS: dict[Severity, str] = {
    "ok": "green",
    "note": "cyan",
    "warning": "yellow",
    "error": "red",
}
# For scripts: no action needed, something to check, something that does not work.
EXIT_CODES: dict[Severity, int] = {"ok": 0, "note": 0, "warning": 1, "error": 2}
COUNTED: tuple[Severity, ...] = ("error", "warning")
FAILS = "correct the errors first"
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
    """All findings, the exit code, and both in a sentence."""

    findings: list[Finding]
    exit_code: int
    verdict: str


def build_report(findings: Sequence[Finding], passes: str = "nothing fails") -> Report:
    """Return the report; its exit code is that of the worst finding.

    passes: describes a target without errors.
    """
    counts = Counter(finding.severity for finding in findings)
    codes = [EXIT_CODES[severity] for severity in counts]
    listed = ", ".join(_count(counts[severity], severity) for severity in COUNTED)
    verdict = f"{listed}: {FAILS if counts['error'] else passes}"
    return Report(list(findings), max(codes, default=0), verdict)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def show_finding(finding: Finding) -> list[Line]:
    """Return a finding as lines with colours."""
    label = Styled(f"{finding.severity:{LABEL_WIDTH}}", COLOURS[finding.severity])
    first, *rest = _wrap(f"{finding.topic}: {finding.message}")
    fix = _wrap(f"fix: {finding.fix}") if finding.fix else []
    return [[label, first[LABEL_WIDTH:]], *rest, *fix]


def _wrap(text: str) -> list[str]:
    """Wrap `text` into lines, without breaking commands and paths, so they can be copied."""
    indent = " " * LABEL_WIDTH
    return textwrap.wrap(
        text,
        LINE_WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
