"""`python -m backedge`: the command `backedge`."""

from __future__ import annotations

from backedge.cli.main import main

main(prog_name="backedge")
