"""Command-line flags in tables, which workers, frontends and `backedge doctor` share."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from .json_types import JsonObject

Flag = tuple[tuple[str, ...], JsonObject]
"""The names of a flag, and the keyword arguments of `add_argument`."""

ON, OFF = "on", "off"
MAX_PORT = 65535
MAX_DIGITS = 9  # limit for a number on the command line


def flag(*names: str, **options: object) -> Flag:
    """Return a flag. options: as for `add_argument`."""
    return names, options


def add_to(parser: argparse.ArgumentParser, flags: Iterable[Flag]) -> None:
    """Add the flags to `parser`."""
    for names, options in flags:
        parser.add_argument(*names, **options)


def parse_megabytes(text: str, least: int = 0) -> int:
    """Parse a size in MiB. Raises ArgumentTypeError."""
    found = int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else -1
    if found < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of MiB from {least}")
    return found
