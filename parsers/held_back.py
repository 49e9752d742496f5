"""Text that a stage has taken and not given out yet, and why: for people who look into a stream.

The hot path never asks. Native parsers do not say what they hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from ..base.limits import MAX_SHOWN_HELD

Why = Literal[
    "partial character",
    "possible stop string",
    "possible marker",
    "marker in a string",
    "white space",
    "possible call",
    "unfinished name",
    "unfinished value",
    "half of a character",
    "native parser",
]
# The explanation of each reason.
EXPLANATIONS: dict[Why, str] = {
    "partial character": "The bytes so far are part of a character.",
    "possible stop string": "A stop string may have begun; the text waits until that is clear.",
    "possible marker": "A marker of the format may have begun.",
    "marker in a string": "A string of arguments contains a marker; what follows decides whether "
    "it ends the call or belongs to the string.",
    "white space": "It belongs to the text if text follows, and is dropped if a call follows.",
    "possible call": "A call may have begun; otherwise this is text.",
    "unfinished name": "A name, key or header is incomplete.",
    "unfinished value": "The type or end of a value is undecided; it is converted at its end.",
    "half of a character": "The end of the text may be half of a surrogate pair.",
    "native parser": "The engine's own parser has held back this text without a reason.",
}


class HeldText(msgspec.Struct, frozen=True):
    """Text that waits. text: its end, at most `MAX_SHOWN_HELD` characters. length: all of it."""

    why: Why
    text: str
    length: int


def hold(why: Why, text: str) -> list[HeldText]:
    """Return `text` as what waits; nothing if it is empty."""
    return [HeldText(why, text[-MAX_SHOWN_HELD:], len(text))] if text else []


def hold_pieces(why: Why, pieces: Iterable[str], length: int) -> list[HeldText]:
    """Return what waits in pieces, of which it reads the last ones only.

    pieces: the last one first. length: of all of them together, in characters.
    """
    last: list[str] = []
    room = MAX_SHOWN_HELD
    for piece in pieces:
        last.append(piece)
        room -= len(piece)
        if room <= 0:
            break
    text = "".join(reversed(last))[-min(MAX_SHOWN_HELD, length) :]
    return [HeldText(why, text, length)] if length else []
