"""`backedge offline`: passes its arguments to `python -m backedge.offline`."""

from __future__ import annotations

import click


@click.command(
    "offline",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, arguments: tuple[str, ...]) -> None:
    """Generate the answers to a file of conversations, without a server."""
    from ..offline.command import main

    ctx.exit(main(arguments))
