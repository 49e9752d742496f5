"""The text since a marker that may have opened a call; `ShownText` decides what it is."""

from __future__ import annotations


class Guess:
    """The text since a marker that may have opened a call.

    opening: the marker. before: the number of the last call before it.
    is_message: what was collected was a message's header, which is for no client.
    interrupts: the marker is in the midst of text, which may quote it.
    words: text in front of a section's first call; it ends with the piece before `words_end`.
    call: the piece that is the marker of a call in a section; None outside of one.
    item: the first piece of an item of a list; None outside of one.
    shows: text after a call has gone out.
    last: the marker after which nothing was read.
    """

    def __init__(self, opening: str, before: int) -> None:
        self.opening = opening
        self.before = before
        self.is_message = self.interrupts = False
        self.last = ""
        self.words = ""
        self.words_end = 0
        self.call: int | None = None
        self.item: int | None = None
        self.shows = False
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        """All of it: what becomes text if no call begins."""
        return self.shown_opening + "".join(self.pieces)

    @property
    def shown_opening(self) -> str:
        """The marker, unless it belongs to a message's header."""
        return "" if self.is_message else self.opening

    def drop_header(self) -> None:
        """Drop what was collected: it was a message's header, and the message follows."""
        self.is_message = True
        self.words_end = 0
        self.call = self.item = None
        self.pieces.clear()

    def add_words(self, text: str) -> None:
        """Add to the words, together with what stands between them."""
        if self.words:
            self.words += "".join(self.pieces[self.words_end :])
        self.words += text
        self.pieces.append(text)
        self.words_end = len(self.pieces)
        self.last = ""
