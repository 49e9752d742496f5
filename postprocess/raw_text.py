"""The text of a choice as the model writes it, for a frontend that parses it by itself.

Such a frontend knows nothing of what is held back here. If the worker dies, Dynamo sends the
request to another one with the tokens that have left, and that one begins anew behind them. So a
token leaves with its text, never before it: held-back text is then generated once more.

Parsers that are made for one token at a time lose text if much of it comes at once: what stands
between two calls, or which of it is reasoning. So text is cut in front of each marker and after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from typing_extensions import override

from ..parsers.base import ParserFactory, ParserRequest, StreamParser
from ..parsers.events import Content, Event
from .stop import ROOT, StopSearch, stop_strings


class TextRun(msgspec.Struct):
    """Text to be read at once, and the number of the tokens that it was decoded from.

    stays_alone: it is never merged with other text.
    """

    text: str = ""
    tokens: int = 0
    stays_alone: bool = False


class RawText(StreamParser):
    """Passes all text on, markers included.

    markers: a token that has a part of one is a run of its own; None for a run of each token.
    """

    # Each token's text passes whole, or is held back whole.
    token_aligned = True
    # Such a frontend looks for stop strings in all text.
    in_reasoning = False
    reasoning_tokens = 0

    def __init__(self, markers: Sequence[str] | None) -> None:
        self._search = StopSearch(stop_strings(markers)) if markers else None
        self._merges = markers is not None
        self._runs: list[TextRun] = []
        self._begun: list[TextRun] = []  # tokens of what may be the beginning of a marker
        self._open = 0  # tokens whose text has not come: they end within a character

    @override
    def reads_together(self, token_ids: Sequence[int]) -> bool:
        return False

    @override
    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        self._open += len(token_ids)
        if not text:
            return []
        run, self._open = TextRun(text, self._open), 0
        search = self._search
        found = search is not None and find_all(search, text)
        if found or (search is not None and search.state != ROOT):
            self._begun.append(run)
        if found:
            self._decide(are_alone=True)
        elif search is None or search.state == ROOT:
            self._decide(are_alone=False)
            self._append(run)
        return [] if self._begun else [Content(text)]

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        return self.feed(text, token_ids)

    def take(self, *, whole: bool) -> list[TextRun]:
        """Return the text since the last call, with all tokens that it was decoded from.

        whole: also what may be the beginning of a marker.
        """
        if whole:
            self._decide(are_alone=True)
        runs, self._runs = self._runs, []
        return runs

    def _decide(self, *, are_alone: bool) -> None:
        """Take the tokens of what began like a marker. are_alone: it is one, or may be."""
        for run in self._begun:
            run.stays_alone = are_alone
            self._append(run)
        self._begun.clear()

    def _append(self, run: TextRun) -> None:
        last = self._runs[-1] if self._runs else None
        if last is None or last.stays_alone or run.stays_alone or not self._merges:
            self._runs.append(run)
        else:
            last.text += run.text
            last.tokens += run.tokens


def find_all(search: StopSearch, text: str) -> bool:
    """Search `text` to its end; return whether anything has been found."""
    found, position = False, 0
    while (match := search.feed(text[position:], min_tokens_reached=True)) is not None:
        found = True
        position += match[0]
        search.state = ROOT
    return found


class RawTexts(ParserFactory):
    """Makes the `RawText` of each choice of one request.

    markers: as for `RawText`. choices: of the request, by index.
    """

    name = "none"

    def __init__(self, markers: Sequence[str] | None) -> None:
        self._markers = markers
        self.choices: list[RawText] = []

    @override
    def shows_special_tokens(self, request: ParserRequest) -> bool:
        return False

    @override
    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> RawText:
        self.choices.append(RawText(self._markers))
        return self.choices[-1]
