"""docs/command-line.md: its examples run, and print what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from backedge.cli.main import COMMANDS, main
from click.testing import CliRunner, Result

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```(sh|text)\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE))
EXAMPLES = BLOCKS["sh"].splitlines()


def run(line: str, monkeypatch) -> Result:
    monkeypatch.chdir(ROOT)
    name, *words = shlex.split(line)
    assert name == "backedge"
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_run(line, monkeypatch) -> None:
    result = run(line, monkeypatch)
    assert (result.exit_code, bool(result.stdout)) == (0, True)


def test_the_first_prints_what_the_page_says(monkeypatch) -> None:
    printed = run(EXAMPLES[0], monkeypatch).stdout.splitlines()
    assert set(BLOCKS["text"].splitlines()) <= set(printed)


def test_the_table_has_all_subcommands() -> None:
    named = re.findall(r"^\| `backedge ([\w-]+)`", PAGE, flags=re.MULTILINE)
    assert sorted(named) == sorted(COMMANDS)
