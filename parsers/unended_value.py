"""Ends of a call in a value whose own end has not come: they are text of it, or it has ended.

A value may mention the markers that end calls. If the output ends after them, nothing else can
follow: the value has lost its end, and has ended in front of them. So they wait, and the white
space between them, until other output follows, at most `MAX_UNENDED` characters.

The decision depends on the output alone and not on how it was cut into pieces.
"""

from __future__ import annotations

from ..base.limits import MAX_UNENDED
from .compiled_format import CompiledFormat
from .format import Jump, State
from .marker_in_string import Piece


class UnendedValue:
    """Holds the markers that end a call, and what follows them, in the order that a table allows.

    marker, text: the first one, and the text with which it was fed. pieces: the output after it.
    """

    def __init__(self, table: CompiledFormat, marker: str, text: str) -> None:
        self.marker = marker
        self.text = text
        self.pieces: list[Piece] = []
        self._table = table
        self._tokens = frozenset(table.ids.values())
        self._text = marker
        self._rest = ""  # of the text, after the last marker
        self._exits = table.find_call_ends(State.PARAMETERS)
        self._follow(marker)

    @property
    def held(self) -> str:
        """All text that waits."""
        return self._text

    def add(self, piece: Piece, marker: str | None) -> bool | None:
        """Take the next piece; return False if all is text of the value, or None if unknown.

        marker: the marker token that the piece is, if it is one.
        """
        self.pieces.append(piece)
        text, token_ids = piece
        # A special token is hidden.
        part = self._table.parts.get(token_ids[0], "") if token_ids else ""
        text = marker or (text if text.endswith(part) else text + part)
        self._text += text
        if marker is None:
            self._rest += text
            goes_on = self._read()
        else:
            goes_on = not self._rest.strip() and self._follow(marker)
        return None if goes_on and len(self._text) <= MAX_UNENDED else False

    def _read(self) -> bool:
        """Read the text after the last marker; return False if it is no end of a call."""
        while rest := self._rest.lstrip():
            spelled = [end for end in self._exits if end not in self._tokens]
            found = max((end for end in spelled if rest.startswith(end)), key=len, default="")
            if not found:
                return any(end.startswith(rest) for end in spelled)
            self._follow(found)
            self._rest = rest.removeprefix(found)
        return True

    def _follow(self, marker: str) -> bool:
        """Follow a marker; return False if it does not end a call here."""
        target: State | Jump | None = self._exits.get(marker)
        self._exits = self._table.find_call_ends(target) if isinstance(target, State) else {}
        self._rest = ""
        return target is not None
