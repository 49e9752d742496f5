"""`python -m backedge.cli`: the command `backedge`."""

from __future__ import annotations

from .main import main

main()
