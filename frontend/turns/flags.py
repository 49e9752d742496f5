"""The command-line flags of `--keep-turns`."""

from __future__ import annotations

import argparse
import functools
import importlib.util
import re
from typing import Literal, TypeAlias, get_args

import msgspec

from ...base.errors import SetupError
from ...base.flags import OFF, Flag, flag, parse_amount, parse_megabytes
from ...base.limits import KEEP_TURNS_EXPIRY_S, KEEP_TURNS_MB

KEEP_FLAG = "--keep-turns"
LIMIT_FLAG = "--keep-turns-mb"
SCOPE_FLAG = "--keep-turns-scope"
STORE_FLAG = "--keep-turns-store"
EXPIRY_FLAG = "--keep-turns-expiry"
STORE_URL = re.compile(r"(?:valkey|redis)(s?://.+)")
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


def parse_store(text: str) -> str:
    """Return the server's URL for a client of Redis. Raises ArgumentTypeError."""
    url = STORE_URL.fullmatch(text)
    if url is None:
        # Without the value, which may have a password.
        raise argparse.ArgumentTypeError("it must be a URL: valkey://HOST:PORT/0 or redis://...")
    return f"redis{url[1]}"


def parse_expiry(text: str) -> int:
    """Return a number of seconds. Raises ArgumentTypeError."""
    return parse_amount(text, "seconds", 1)


FLAGS: tuple[Flag, ...] = (
    flag(
        KEEP_FLAG,
        choices=MODES,
        default=OFF,
        help="Restore in a request, of earlier answers: nothing, the reasoning, or the token ids "
        "as well.",
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
    flag(
        STORE_FLAG,
        type=parse_store,
        metavar="URL",
        help="valkey://HOST:PORT/0 or redis://...: a server where several frontends keep turns.",
    ),
    flag(
        EXPIRY_FLAG,
        type=parse_expiry,
        default=KEEP_TURNS_EXPIRY_S,
        metavar="S",
        help=f"How long that server keeps a turn, in seconds. Default: {KEEP_TURNS_EXPIRY_S}.",
    ),
)


class TurnSettings(msgspec.Struct, frozen=True):
    """The frontend's flags about turns.

    mode: the most that a request may ask for. megabytes: memory for the turns of all models.
    scope: name of the metadata that tells tenants apart; None for a frontend of a single one.
    store: URL of a server that frontends share, for a client of Redis; None for none.
    expiry_s: how long it keeps a turn.
    """

    mode: TurnMode
    megabytes: int = KEEP_TURNS_MB
    scope: str | None = None
    store: str | None = None
    expiry_s: int = KEEP_TURNS_EXPIRY_S


def read_turn_settings(parsed: argparse.Namespace) -> TurnSettings | None:
    """Return the settings; None to keep no turns.

    Raises `SetupError` if the store's client is not installed.
    """
    if parsed.keep_turns == OFF:
        return None
    store = parsed.keep_turns_store
    if store is not None and importlib.util.find_spec("redis") is None:
        raise SetupError(f"{STORE_FLAG} needs a client; run pip install '.[turns]'.")
    return TurnSettings(
        parsed.keep_turns,
        parsed.keep_turns_mb,
        parsed.keep_turns_scope,
        store,
        parsed.keep_turns_expiry,
    )
