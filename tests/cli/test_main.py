"""The command `backedge`: every subcommand is there, and explains itself."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from backedge.base.errors import SetupError
from backedge.cli.main import COMMANDS, main
from click.testing import CliRunner


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
    assert result.stderr == "backedge: a flag is wrong; set it.\n"
    assert result.stdout == ""


def test_a_package_that_is_missing_is_named(monkeypatch) -> None:
    monkeypatch.setitem(COMMANDS, "parsers", ("missing_module", "needs more"))
    result = CliRunner().invoke(main, ["parsers"])
    assert result.exit_code == 2
    assert result.stderr.startswith("backedge: parsers needs backedge.cli.missing_module")
    assert "backedge[light]" in result.stderr


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
