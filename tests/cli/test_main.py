"""The command `backedge`: every subcommand is there, and explains itself."""

from __future__ import annotations

import pytest
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
