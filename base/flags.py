"""Command-line flags in tables, which workers, frontends and `backedge doctor` share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence

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
    """Add the flags to `parser`, as by `with_variable`."""
    for names, options in flags:
        parser.add_argument(*names, **with_variable(names, options))


SWITCHES = {"1": True, "true": True, ON: True, "0": False, "false": False, OFF: False}


def list_variables(names: Iterable[str]) -> list[str]:
    """Return the environment variables of a flag: BACKEDGE_KEEP_TURNS for --keep-turns."""
    return [f"BACKEDGE_{name.lstrip('-').replace('-', '_').upper()}" for name in names]


def with_variable(names: Sequence[str], options: JsonObject) -> JsonObject:
    """Return the options of a flag with the default that its environment variable gives.

    The help names the variable. Raises SystemExit for a value that the flag does not take.
    """
    shown = f"{options.get('help', '')} [{', '.join(list_variables(names))}]"
    return {**options, "help": shown.lstrip(), **read_variable(names, options)}


def read_variable(names: Sequence[str], options: JsonObject) -> JsonObject:
    """Return the default that the environment gives a flag, {} for none; as `with_variable`."""
    for variable in list_variables(names):
        if text := os.environ.get(variable):
            try:
                return {"default": _convert(text, options)}
            except (argparse.ArgumentTypeError, ValueError) as error:
                raise SystemExit(f"{variable}: {error}") from error
    return {}


def parse_switch(text: str) -> bool:
    """Parse the value of a switch's variable. Raises ArgumentTypeError."""
    if text.lower() not in SWITCHES:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(SWITCHES)}")
    return SWITCHES[text.lower()]


def _convert(text: str, options: JsonObject) -> object:
    match options.get("action"):
        case "append":
            return text.split(",")
        case "store_true":
            return parse_switch(text)
    value: object = options.get("type", str)(text)
    choices = options.get("choices")
    if choices and value not in choices:
        raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
    return value


def parse_megabytes(text: str, least: int = 0) -> int:
    """Parse a size in MiB. Raises ArgumentTypeError."""
    return parse_amount(text, "MiB", least)


def parse_amount(text: str, unit: str, least: int) -> int:
    """Parse a whole number of `unit`. Raises ArgumentTypeError."""
    found = int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else -1
    if found < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of {unit} from {least}")
    return found
