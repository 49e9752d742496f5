"""`backedge offline` is `python -m backedge.offline`."""

from __future__ import annotations

import pytest
from backedge.cli.main import main
from backedge.offline import command
from click.testing import CliRunner


@pytest.mark.parametrize("code", [0, 2, 3])
def test_arguments_and_exit_code_are_passed_on(code, monkeypatch) -> None:
    seen = []

    def run(arguments):
        seen.append(arguments)
        return code

    monkeypatch.setattr(command, "main", run)
    words = ["--model", "m", "--stop-strings", "-h", "--input=in.jsonl"]
    assert CliRunner().invoke(main, ["offline", *words]).exit_code == code
    assert seen == [tuple(words)]


def test_a_wrong_flag_is_one_line() -> None:
    words = ["--input", "in.jsonl", "--output", "out.jsonl", "--model", "m", "--seeed", "1"]
    result = CliRunner().invoke(main, ["offline", *words])
    assert result.exit_code == 2
    assert "--seeed" in result.stderr
    assert len(result.stderr.splitlines()) == 1
