"""`make offline`: runs the command on the examples and prints a table."""

from __future__ import annotations

import argparse
import sys

import pytest

from tests.support import TRANSCRIPTS
from tools.offline import build_command, main, read_rows, shorten, show_table
from tools.stack import ROOT


def test_it_generates_the_transcripts_and_prints_them(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["offline"])
    monkeypatch.setenv("COLUMNS", "2000")
    assert main() == 0
    lines = capfd.readouterr().out.splitlines()
    table = lines[lines.index("") + 1 :]
    rows = {line.split()[0]: line for line in table if line}
    assert rows.keys() == {"row", *TRANSCRIPTS}
    assert rows["tool_call"].split(maxsplit=3)[2:] == [
        "tool_calls",
        'get_weather {"city": "Paris", "unit": "C"}',
    ]
    assert all(" error " not in line for line in table)


def test_flags_reach_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["offline", "--", "--max-new-tokens", "none"])
    assert main() == 2


def test_a_model_needs_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["offline", "--model", "m"])
    with pytest.raises(SystemExit, match="add ENGINE=hf or ENGINE=vllm"):
        main()


@pytest.mark.parametrize("engine", ["replay", "hf", "vllm"])
def test_the_command_of_each_engine(engine: str) -> None:
    options = argparse.Namespace(engine=engine, model="", arguments=["--seed", "1"])
    command = build_command(options, ROOT / "in", ROOT / "out")
    assert command[command.index("--backend") + 1] == engine
    assert command[-2:] == ["--seed", "1"]


def test_rows_that_fail_are_in_the_table() -> None:
    failed = {"custom_id": "a", "error": {"code": "image", "message": "Not\nthere."}}
    assert show_table([failed], 0)[1].split() == ["a", "image", "Not", "there."]
    assert shorten("ab  cd", 4) == "ab \u2026"


def test_the_rows_are_all_transcripts() -> None:
    assert {row["custom_id"] for row in read_rows()} == TRANSCRIPTS.keys()
