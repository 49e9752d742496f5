"""Batches for tests of the command: the examples' conversations as rows, and their answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from backedge.offline.command import command
from backedge.offline.plugins import Plugin

from tests.support import TINY_MODEL, TRANSCRIPTS, Transcript
from tools.offline import FIELDS, PARSERS

WITHOUT_PARSERS = ("--model", str(TINY_MODEL), "--backend", "replay")
REPLAY = (*WITHOUT_PARSERS, *PARSERS)
URL = "/v1/chat/completions"
ALL = list(TRANSCRIPTS.values())


def batch_row(number: int, transcript: Transcript) -> dict[str, Any]:
    body = {name: transcript[name] for name in FIELDS if name in transcript}
    return {"custom_id": f"row-{number}", "method": "POST", "url": URL, "body": body}


def write_rows(path: Path, rows: int) -> Path:
    """Write so many rows in OpenAI's form: the transcripts, over and over."""
    lines = [json.dumps(batch_row(number, ALL[number % len(ALL)])) for number in range(rows)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def read_answers(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def build_command(
    source: Path, output: Path, *flags: str, base: tuple[str, ...] = REPLAY
) -> list[str]:
    files = ("--input", str(source), "--output", str(output))
    return [sys.executable, "-m", "backedge.offline", *base, *files, *flags]


def run_command(source: Path, output: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = build_command(source, output, *flags)
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})


def run_here(arguments: Sequence[str]) -> int:
    """Run the command in this process; return its exit code."""
    try:
        code: int = command.main(list(arguments), standalone_mode=False)
    except click.UsageError as error:
        error.show()
        code = error.exit_code
    return code


class Shout(Plugin):
    """A plugin of the user's own."""

    name = "shout"

    def clean(self, text: str) -> str:
        return text.upper()
