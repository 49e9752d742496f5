"""The text since a marker that may have opened a call; `ShownText` decides what it is."""

from __future__ import annotations

from ..base.limits import MAX_MARKUP, MAX_SPACE

MAX_BEGINNING = MAX_MARKUP + MAX_SPACE


class Guess:
    """The text since a marker that may have opened a call.

    opening: the marker. before: the number of the last call before it.
    is_message: what was collected was a message's header, which is for no client.
    interrupts: the marker is in the midst of text, which may quote it.
    words: text in front of a section's first call; it ends with the piece before `words_end`.
    call: the piece that is the marker of a call in a section; None outside of one.
    shows: text after a call has gone out.
    last: the marker after which nothing was read.
    """

    def __init__(self, opening: str, before: int, *, interrupts: bool = False) -> None:
        self.opening = opening
        self.before = before
        self.interrupts = interrupts
        self.is_message = False
        self.last = ""
        self.words = ""
        self.words_end = 0
        self.call: int | None = None
        self.shows = False
        self.pieces: list[str] = []
        self._beginning = opening

    @property
    def text(self) -> str:
        """All of it: what becomes text if no call begins."""
        return self.shown_opening + "".join(self.pieces)

    def begin_with(self, more: str) -> str:
        """Return the text with `more` after it, or at least its first `MAX_BEGINNING` characters.

        The cost does not grow with the text.
        """
        return self._beginning if len(self._beginning) >= MAX_BEGINNING else self._beginning + more

    def is_too_long(self, more: str) -> bool:
        """Whether the text with `more` has more than `MAX_MARKUP` characters.

        White space around it does not count, unless it is longer than `MAX_BEGINNING`.
        """
        so_far = self.begin_with(more)
        return len(so_far) >= MAX_BEGINNING or len(so_far.strip()) > MAX_MARKUP

    def _append(self, text: str) -> None:
        self.pieces.append(text)
        if len(self._beginning) < MAX_BEGINNING:
            self._beginning += text

    def _begin_again(self) -> None:
        """Find the beginning, since other text than the last piece has changed."""
        self._beginning = self.shown_opening
        for piece in self.pieces:
            if len(self._beginning) >= MAX_BEGINNING:
                return
            self._beginning += piece

    @property
    def shown_opening(self) -> str:
        """The marker, unless it belongs to a message's header."""
        return "" if self.is_message else self.opening

    def drop_header(self) -> None:
        """Drop what was collected: it was a message's header, and the message follows."""
        self.is_message = True
        self.words_end = 0
        self.end_call()
        self.pieces.clear()
        self._begin_again()

    def show(self) -> None:
        """Forget what was collected: text after a call, which goes out."""
        self.shows, self.last = True, ""
        self.end_call()
        self.pieces.clear()
        self._begin_again()

    def note_marker(self, marker: str) -> None:
        """Note the marker that was read last."""
        self.last = marker

    def add(self, text: str) -> None:
        """Collect text."""
        self._append(text)
        if self.last and not text.isspace():
            self.last = ""

    # Calls.

    def begin_call(self, marker: str) -> None:
        """Collect the marker that begins a call in a section."""
        self.call = len(self.pieces)
        self._append(marker)

    def end_call(self) -> None:
        """Forget where a call has begun."""
        self.call = None

    def take_back(self, start: int) -> list[str]:
        """Return the pieces from `start` on, which are collected no longer."""
        pieces = self.pieces[start:]
        del self.pieces[start:]
        self._begin_again()
        return pieces

    def put_back(self, pieces: list[str]) -> None:
        """Collect pieces again that were taken back."""
        self.pieces += pieces
        self._begin_again()

    def drop_front(self, marks: str) -> None:
        """Drop `marks` in front of all that was collected."""
        self.pieces = ["".join(self.pieces).lstrip(marks)]
        self._begin_again()

    # Words.

    def end_words(self) -> None:
        """Let the words end after the last piece."""
        self.words_end = len(self.pieces)

    def take_words(self) -> str:
        """Return the words, which go out."""
        words, self.words = self.words, ""
        return words

    def drop_shown(self) -> None:
        """Drop the marker and the words, which have gone out."""
        self.opening, self.pieces = "", self.pieces[self.words_end :]
        self._begin_again()

    def add_words(self, text: str) -> None:
        """Add to the words, together with what stands between them."""
        if self.words:
            self.words += "".join(self.pieces[self.words_end :])
        self.words += text
        self._append(text)
        self.words_end = len(self.pieces)
        self.last = ""
