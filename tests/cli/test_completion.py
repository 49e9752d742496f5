"""Completion in a shell: the scripts, and what they are answered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from backedge.cli.completion import SHELLS, VARIABLE
from backedge.cli.main import COMMANDS, main
from click.testing import CliRunner


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_asks_the_command(shell) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert VARIABLE in result.stdout
    assert "backedge" in result.stdout


def test_another_shell_is_refused() -> None:
    assert CliRunner().invoke(main, ["completion", "csh"]).exit_code == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_takes_the_script() -> None:
    script = CliRunner().invoke(main, ["completion", "bash"]).stdout
    command = ["bash", "-c", f"{script}\ncomplete -p backedge"]
    run = subprocess.run(command, capture_output=True, check=True)
    assert (b"backedge" in run.stdout, run.stderr) == (True, b"")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("backedge ", set(COMMANDS)),
        ("backedge par", {name for name in COMMANDS if name.startswith("par")}),
        ("backedge completion z", {"zsh"}),
        ("backedge --v", {"--version"}),
    ],
)
def test_a_shell_is_answered(words, expected) -> None:
    variables = {
        **os.environ,
        VARIABLE: "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    command = [
        sys.executable,
        "-c",
        "from backedge.cli.main import main; main(prog_name='backedge')",
    ]
    run = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert {line.partition(",")[2] for line in run.stdout.split()} == expected
