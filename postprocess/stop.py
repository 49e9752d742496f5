"""Stop strings: the earliest one to be complete wins, and only what could still become one is held back."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

Piece = tuple[str, int | None]
"""The text of one token, and the token; None for text that the parser has read already."""


class StopGate:
    """Lets the pieces of one choice through, up to a stop string.

    stops: non-empty strings. If two are complete at the same character, the
        first of the list wins, as in vLLM.
    include: the stop string itself is let through, too.
    splits: a piece may be let through in two parts. If not, a piece waits
        until all of it may pass, so that text and token ids stay aligned.
    """

    def __init__(self, stops: Sequence[str], *, include: bool, splits: bool) -> None:
        self._stops = tuple(stops)
        self._include = include
        self._splits = splits
        self._longest = max(map(len, self._stops), default=0)
        self._window = ""  # the end of the text: what a match may begin in, and what is held back
        self._passed = 0  # characters of the window that may pass
        self._pieces: deque[Piece] = deque()
        self._taken = 0  # characters that may pass and have not been taken yet
        self.matched: str | None = None

    def feed(self, text: str, token_id: int | None, *, armed: bool = True) -> list[Piece]:
        """Return the pieces that may pass now; sets `matched` when a stop string is complete.

        armed: False while `min_tokens` are not reached; a stop string that
            is complete by then does not count.
        """
        self._pieces.append((text, token_id))
        unarmed = len(self._window) if armed else len(self._window) + len(text)
        self._window += text
        end = self._match(unarmed)
        if end is None:
            end = len(self._window) - self._held_back()
        self._taken += max(0, end - self._passed)
        self._passed = max(self._passed, end)
        surplus = min(self._passed, len(self._window) - self._longest + 1)
        if surplus > 0 and self.matched is None:
            self._window = self._window[surplus:]
            self._passed -= surplus
        return self._take()

    def flush(self) -> list[Piece]:
        """Return everything held back: the text ends here, without a stop string."""
        pieces = list(self._pieces)
        self._pieces.clear()
        self._window = ""
        self._passed = self._taken = 0
        return pieces

    def _match(self, unarmed: int) -> int | None:
        """Return how much of the window passes if a stop string ends behind `unarmed`, else None."""
        best: tuple[int, int, str] | None = None
        for stop in self._stops:
            start = self._window.find(stop, max(0, unarmed - len(stop) + 1))
            if start >= 0 and (best is None or start + len(stop) < best[0]):
                best = (start + len(stop), start, stop)
        if best is None:
            return None
        end, start, self.matched = best
        return end if self._include else start

    def _held_back(self) -> int:
        """Return the length of the longest end of the window that a stop string begins with."""
        if self._include:
            return 0
        for length in range(min(self._longest - 1, len(self._window)), 0, -1):
            tail = self._window[-length:]
            if any(stop.startswith(tail) for stop in self._stops if len(stop) > length):
                return length
        return 0

    def _take(self) -> list[Piece]:
        taken: list[Piece] = []
        while self._pieces and len(self._pieces[0][0]) <= self._taken:
            piece = self._pieces.popleft()
            self._taken -= len(piece[0])
            taken.append(piece)
        if self._pieces and self._taken and (self._splits or self.matched is not None):
            text, token_id = self._pieces.popleft()
            taken.append((text[: self._taken], token_id))
            self._pieces.appendleft((text[self._taken :], token_id))
            self._taken = 0
        return taken
