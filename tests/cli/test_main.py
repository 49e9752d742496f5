"""The command `backedge`: every subcommand is there, and explains itself."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest
from backedge.base.errors import SetupError
from backedge.cli.main import COMMANDS, SHELLS, VARIABLE, main
from backedge.offline import command as offline_command
from click.testing import CliRunner

from tests.machine import needs


def test_lists_the_subcommands() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_subcommand_explains_itself(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert "--" in result.output


def test_an_unknown_subcommand_is_refused() -> None:
    result = CliRunner().invoke(main, ["inspekt"])
    assert result.exit_code == 2
    assert "inspekt" in result.output


@click.command("failing")
def failing() -> None:
    raise SetupError("a flag is wrong;\nset it.")


@click.command("colourful")
def colourful() -> None:
    click.secho("text", fg="red")


def with_command(monkeypatch, command: click.Command) -> None:
    monkeypatch.setattr(main, "get_command", lambda *_: command)


def test_an_error_of_ours_is_one_line(monkeypatch) -> None:
    with_command(monkeypatch, failing)
    result = CliRunner().invoke(main, ["failing"])
    assert result.exit_code == 2
    assert result.stderr == "backedge failing: a flag is wrong; set it.\n"
    assert result.stdout == ""


def test_a_package_that_is_missing_is_named(monkeypatch) -> None:
    monkeypatch.setitem(COMMANDS, "parsers", ("cli.missing_module:command", "needs more"))
    result = CliRunner().invoke(main, ["parsers"])
    assert result.exit_code == 2
    assert result.stderr.startswith("backedge: parsers needs backedge.cli.missing_module")
    assert "pip install '.[light]'" in result.stderr


@pytest.mark.parametrize(
    ("variable", "terminal", "shown"),
    [("", True, "\x1b[31mtext\x1b[0m\n"), ("1", True, "text\n"), ("", False, "text\n")],
)
def test_colours_are_for_terminals(variable, terminal, shown, monkeypatch) -> None:
    with_command(monkeypatch, colourful)
    monkeypatch.setenv("NO_COLOR", variable)
    assert CliRunner().invoke(main, ["colourful"], color=terminal).output == shown


def test_python_m_is_the_same_command() -> None:
    command = [sys.executable, "-m", "backedge.cli", "--version"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown == CliRunner().invoke(main, ["--version"], prog_name="backedge").output


@pytest.mark.parametrize("code", [0, 2, 3])
def test_an_exit_code_is_passed_on(code, monkeypatch) -> None:
    monkeypatch.setattr(offline_command, "run", lambda _: code)
    words = ["--model", "m", "--input=in.jsonl", "--output", "out.jsonl"]
    assert CliRunner().invoke(main, ["offline", *words]).exit_code == code


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("offline --seeed 1", "No such option '--seeed'. Did you mean '--seed'?"),
        ("replay", "Missing argument 'FILE...'."),
        ("replay f --chunks x", "'x' must be recorded, all, random, or a number from 1"),
        ("offlin", "no command 'offlin'; did you mean offline?"),
    ],
)
def test_a_wrong_flag_is_one_line(words, said) -> None:
    result = CliRunner().invoke(main, words.split(), prog_name="backedge")
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_help_has_no_markup(name) -> None:
    assert "\\b" not in CliRunner().invoke(main, [name, "--help"]).output


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_asks_the_command(shell) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert VARIABLE in result.stdout
    assert "backedge" in result.stdout


def test_another_shell_is_refused() -> None:
    assert CliRunner().invoke(main, ["completion", "csh"]).exit_code == 2


@needs("bash")
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
        ("backedge offline --top", {"--top-p", "--top-k"}),
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
