"""The text of a choice as the model writes it, for a frontend that has its own parsers.

Such a frontend does not know what is held back here. If the worker dies, Dynamo sends the request
to another one together with the tokens already sent, and that worker starts after them. So a
token is sent together with its text, never before it; the next worker generates held-back text
again.

Parsers that expect one token at a time lose text if much of it comes at once (text between two
calls, the end of reasoning). So text is cut before and after each marker.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from typing_extensions import override

from ..parsers.base import ParserFactory, ParserRequest, StreamParser
from ..parsers.events import Content, Event
from .stop_strings import ROOT, StopSearch, stop_strings


class TextRun(msgspec.Struct):
    """Text to be parsed in one piece, and the number of tokens that it was decoded from.

    stays_alone: the text is never merged with other text.
    """

    text: str = ""
    tokens: int = 0
    stays_alone: bool = False


class RawText(StreamParser):
    """Passes all text through, markers included.

    markers: a token that contains part of a marker is its own run; None: each token is. Those of
        one character do not end the search for longer ones that begin with them.
    """

    # The text of each token is either passed whole or held back whole.
    token_aligned = True
    # Such a frontend checks all text for stop strings.
    in_reasoning = False
    reasoning_tokens = 0

    def __init__(self, markers: Sequence[str] | None) -> None:
        long = [marker for marker in markers or () if len(marker) > 1]
        self._signs = frozenset(markers or ()).difference(long)
        self._search = StopSearch(stop_strings(long)) if long else None
        self._merges = markers is not None
        self._runs: list[TextRun] = []
        self._begun: list[TextRun] = []  # tokens that may begin a marker
        self._open = 0  # tokens without text yet, because they end within a character

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
        if found or not self._signs.isdisjoint(text):
            self._begun.append(run)
            self._decide(are_alone=True)
        elif search is None or search.state == ROOT:
            self._decide(are_alone=False)
            self._append(run)
        else:
            self._begun.append(run)
        return [] if self._begun else [Content(text)]

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        return self.feed(text, token_ids)

    def take(self, *, whole: bool) -> list[TextRun]:
        """Return the text since the last call, with the number of its tokens.

        whole: include text that may begin a marker.
        """
        if whole:
            self._decide(are_alone=True)
        runs, self._runs = self._runs, []
        return runs

    def _decide(self, *, are_alone: bool) -> None:
        """Release the tokens that may begin a marker. are_alone: they are one, or still may be."""
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
    """Search all of `text`; return whether a stop was found."""
    found, position = False, 0
    while (match := search.feed(text, position, min_tokens_reached=True)) is not None:
        found = True
        position = match[0]
        search.state = ROOT
    return found


class RawTexts(ParserFactory):
    """Builds the `RawText` of each choice of one request.

    markers: as for `RawText`. choices: what was built, by choice index.
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
