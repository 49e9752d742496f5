"""`backedge frontend-flags`: lets `python -m dynamo.frontend` know the switches of Backedge.

Dynamo's frontend loads no plugins, unless it is vLLM's that loads them. Elsewhere a line that
Python reads at its start can do the same; a user writes it with this command, and takes it away.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

import click

from ..base.errors import SetupError
from ..base.terminal import print_text

FILE = "backedge_frontend_flags.pth"
# Python runs the lines of a .pth file that begin with `import`. Processes that are not Dynamo's
# frontend import nothing by this one.
LINE = (
    'import sys; "dynamo.frontend" in sys.orig_argv and __import__('
    '"backedge.frontend.handover", fromlist=["_"]).replace_dynamo()\n'
)


def find_file() -> Path:
    """Return where the line is, or would be: in the folder of this Python's packages."""
    return Path(sysconfig.get_path("purelib")) / FILE


@click.command("frontend-flags")
@click.option("--install", is_flag=True, help="Write the line.")
@click.option("--remove", is_flag=True, help="Take the line away.")
def command(*, install: bool, remove: bool) -> None:
    """Let `python -m dynamo.frontend` know --vllm-processing and its like.

    With one of these flags it is then `python -m backedge.frontend`. --install writes one line for
    the start of this environment's Python. Without --install and --remove, tell whether it is
    there.
    """
    if install and remove:
        raise click.UsageError("--install and --remove contradict each other")
    path = find_file()
    try:
        if install:
            path.write_text(LINE, encoding="utf-8")
        if remove:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise SetupError(
            f"{path} cannot be changed ({error.strerror}); "
            "`python -m backedge.frontend` needs no such file."
        ) from error
    if path.is_file():
        print_text(f"dynamo.frontend knows the flags, by {path}")
    else:
        print_text(f"dynamo.frontend does not know the flags: there is no {path}")
