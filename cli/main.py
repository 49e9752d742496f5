"""The command `backedge`, and its subcommands by name.

A subcommand is imported when it is called, because some import an engine, which takes seconds.
"""

from __future__ import annotations

import difflib
import os
import pkgutil
from typing import IO

import click
from click.shell_completion import CompletionItem, get_completion_class
from typing_extensions import override

from ..base.errors import BackedgeError
from ..base.hidden_characters import show_line
from ..base.terminal import print_text

# Subcommand -> its "module:function" in the package, and its description.
COMMANDS = {
    "completion": ("cli.main:completion", "print a script for shell completion"),
    "doctor": (
        "cli.doctor.checkup:command",
        "check compatibility: of versions, of a model and its parsers, of a fleet",
    ),
    "frontend-flags": (
        "cli.frontend_flags:command",
        "let `python -m dynamo.frontend` know the switches of Backedge",
    ),
    "inspect": ("cli.inspect.main:command", "inspect a recorded request, token by token"),
    "offline": (
        "offline.command:command",
        "generate the answers to a file of conversations, without a server",
    ),
    "parse": ("cli.parse:command", "show the events that a parser gives for a text"),
    "parsers": ("cli.parse:parsers", "list the names that the parser flags accept"),
    "replay": ("cli.replay.command:command", "post-process recorded requests again and compare"),
    "top": ("cli.top:command", "watch workers and frontends, from their metrics"),
}
PACKAGE = __package__.rpartition(".")[0]
SHELLS = ("bash", "zsh", "fish")
# click reads this variable to detect a request of a shell.
VARIABLE = "_BACKEDGE_COMPLETE"


class Failure(click.ClickException):
    """An error, shown as one line; exit code 2, as for a wrong flag."""

    exit_code = 2

    def __init__(self, command: str | None, text: object) -> None:
        name = f"backedge {command}" if command else "backedge"
        super().__init__(f"{name}: {show_line(text)}")

    @override
    def show(self, file: IO[str] | None = None) -> None:
        print_text(self.message, file=file, err=file is None)


class LazyGroup(click.Group):
    """Subcommands that are imported when they are called.

    A Backedge error in one of them, or a file that cannot be opened, ends the process with its
    message only.
    """

    @override
    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx else "backedge"
            raise Failure(None, f"{error.format_message()} ({path} --help)") from error
        except BrokenPipeError:
            raise  # the reader has closed the pipe; click ends the command silently
        except (BackedgeError, OSError) as error:
            raise Failure(ctx.invoked_subcommand, error) from error

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
            near = difflib.get_close_matches(cmd_name, COMMANDS, n=1)
            if near and not ctx.resilient_parsing:
                ctx.fail(f"no command {cmd_name!r}; did you mean {near[0]}?")
            return None
        place, _ = COMMANDS[cmd_name]
        try:
            command: click.Command = pkgutil.resolve_name(f"{PACKAGE}.{place}")
        except ModuleNotFoundError as error:
            raise Failure(
                None,
                f"{cmd_name} needs {error.name}, which is not installed; pip install "
                "'.[light]' in a checkout of Backedge installs all that runs without an engine.",
            ) from error
        return command

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in sorted(COMMANDS)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="backedge", prog_name="backedge")
@click.pass_context
def main(ctx: click.Context) -> None:
    """LLM post-processing next to the engine: inspect it, check it, repeat it."""
    # click removes colours if the output is not a terminal. The variable: https://no-color.org.
    if os.environ.get("NO_COLOR"):
        ctx.color = False


@click.command(
    "completion",
    epilog="""\b
bash, in ~/.bashrc:   eval "$(backedge completion bash)"
zsh, in ~/.zshrc:     eval "$(backedge completion zsh)"
fish:                 backedge completion fish > ~/.config/fish/completions/backedge.fish""",
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes `backedge` in a shell."""
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise click.UsageError(f"click {click.__version__} has no completion for {shell}")
    root = ctx.find_root()
    completion = completion_class(root.command, {}, "backedge", VARIABLE)
    script = completion.source_template % completion.source_vars()
    print_text(*script.split("\n"))
