"""The command `backedge`, and its subcommands by name.

A subcommand is imported when it is called: some of them import an engine, which takes seconds.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from typing import IO

import click
from click.shell_completion import CompletionItem
from typing_extensions import override

from ..base.errors import BackedgeError

# Name of a subcommand: its module here, where the command is called `command`, and what it does.
COMMANDS = {
    "completion": ("completion", "print what completes this command in a shell"),
    "doctor": (
        "doctor.checkup",
        "say what fits together: versions, a model and its parsers, a fleet",
    ),
    "inspect": ("inspect", "look into a recorded request, token by token"),
    "offline": ("offline", "generate the answers to a file of conversations, without a server"),
    "parse": ("parse", "show what a parser makes of a text"),
    "parsers": ("parsers", "list the names that the parser flags take"),
    "replay": ("replay.command", "post-process recorded requests again, and compare"),
}


class SetupFailure(click.ClickException):
    """A typed error of ours, as one line; exit code 2, as for a wrong flag."""

    exit_code = 2

    @override
    def show(self, file: IO[str] | None = None) -> None:
        click.echo(f"backedge: {self.message}", file=file, err=file is None)


class LazyGroup(click.Group):
    """Subcommands that are imported when they are called.

    An error of ours in one of them ends the process with its message alone.
    """

    @override
    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BackedgeError as error:
            raise SetupFailure(" ".join(str(error).split())) from error

    @override
    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the subcommands' names without importing them."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=COMMANDS[name][1])
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name, _ = COMMANDS[cmd_name]
        try:
            module = importlib.import_module(f".{name}", __package__)
        except ModuleNotFoundError as error:
            raise SetupFailure(
                f"{cmd_name} needs {error.name}, which is not installed; pip install "
                "'backedge[light]' brings what runs without an engine."
            ) from error
        command: click.Command = module.command
        return command

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in sorted(COMMANDS)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(importlib.metadata.version("backedge"), prog_name="backedge")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Post-processing of LLM output beside the engine: look into it, check it, repeat it."""
    # click takes colours out where there is no terminal. The variable: https://no-color.org.
    if os.environ.get("NO_COLOR"):
        ctx.color = False
