"""`backedge completion SHELL`: prints the script with which a shell completes the command."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
# click reads this variable to detect a request of a shell.
VARIABLE = "_BACKEDGE_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    r"""Print the script that completes `backedge` in a shell.

    \b
      bash, in ~/.bashrc:   eval "$(backedge completion bash)"
      zsh, in ~/.zshrc:     eval "$(backedge completion zsh)"
      fish:                 backedge completion fish > ~/.config/fish/completions/backedge.fish
    """
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise click.UsageError(f"click {click.__version__} has no completion for {shell}")
    root = ctx.find_root()
    completion = completion_class(root.command, {}, "backedge", VARIABLE)
    click.echo(completion.source_template % completion.source_vars())
