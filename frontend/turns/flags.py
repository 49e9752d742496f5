"""The command-line flags of `--keep-turns`."""

from __future__ import annotations

import argparse
import functools
from typing import Literal, TypeAlias, get_args

import msgspec

from ...base.flags import OFF, Flag, flag, parse_megabytes
from ...base.limits import KEEP_TURNS_MB

KEEP_FLAG = "--keep-turns"
LIMIT_FLAG = "--keep-turns-mb"
SCOPE_FLAG = "--keep-turns-scope"
# Dynamo passes the header with this prefix and NAME as the metadata NAME.
HEADER_PREFIX = "x-dynamo-meta-"

TurnMode: TypeAlias = Literal["off", "reasoning", "exact"]
"""What is restored of earlier answers: nothing, their reasoning, or their token ids as well."""
MODES: tuple[TurnMode, ...] = get_args(TurnMode)


def parse_header(text: str) -> str:
    """Return the name of the metadata that Dynamo makes of a header. Raises ArgumentTypeError."""
    name = text.lower()
    if not name.startswith(HEADER_PREFIX) or name == HEADER_PREFIX:
        raise argparse.ArgumentTypeError(
            f"{text!r}: Dynamo shows a frontend only the headers that begin with "
            f"{HEADER_PREFIX}; have your gateway send the tenant in one of them"
        )
    return name.removeprefix(HEADER_PREFIX)


FLAGS: tuple[Flag, ...] = (
    flag(
        KEEP_FLAG,
        choices=MODES,
        default=OFF,
        help="What to restore of earlier answers in a request: nothing, their reasoning, or their "
        "token ids as well.",
    ),
    flag(
        LIMIT_FLAG,
        type=functools.partial(parse_megabytes, least=1),
        default=KEEP_TURNS_MB,
        metavar="MIB",
        help=f"Memory for the answers of all models. Default: {KEEP_TURNS_MB}.",
    ),
    flag(
        SCOPE_FLAG,
        type=parse_header,
        metavar="HEADER",
        help=f"The header that names the tenant; it begins with {HEADER_PREFIX}. A request "
        "without it is left alone.",
    ),
)


class TurnSettings(msgspec.Struct, frozen=True):
    """The frontend's flags about turns.

    mode: the most that a request may ask for. megabytes: memory for the turns of all models.
    scope: name of the metadata that tells tenants apart; None for a frontend of a single one.
    """

    mode: TurnMode
    megabytes: int = KEEP_TURNS_MB
    scope: str | None = None


def read_turn_settings(parsed: argparse.Namespace) -> TurnSettings | None:
    """Return the settings; None to keep no turns."""
    if parsed.keep_turns == OFF:
        return None
    return TurnSettings(parsed.keep_turns, parsed.keep_turns_mb, parsed.keep_turns_scope)
