"""The command `backedge`, and its subcommands by name.

A subcommand is imported when it is called: some of them import an engine, which takes seconds.
"""

from __future__ import annotations

import importlib
import importlib.metadata

import click
from typing_extensions import override

# Name of a subcommand: its module here, where the command is called `command`, and what it does.
COMMANDS = {
    "parse": ("parse", "show what a parser makes of a text"),
    "inspect": ("inspect", "look into a recorded request, token by token"),
    "parsers": ("parsers", "list the names that the parser flags take"),
    "replay": ("replay.command", "post-process recorded requests again, and compare"),
}


class LazyGroup(click.Group):
    """Subcommands that are imported when they are called."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command: click.Command = importlib.import_module(f".{module}", __package__).command
        return command

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in sorted(COMMANDS)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(importlib.metadata.version("backedge"), prog_name="backedge")
def main() -> None:
    """Post-processing of LLM output beside the engine: look into it, check it, repeat it."""
