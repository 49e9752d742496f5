"""Applies stop strings around a parser: to the answer, never to reasoning.

Stop strings of the answer are searched in the model's raw text, before the parser, so they also
end tool calls and markup. Reasoning is not searched. The token that ends reasoning may hold the
first text of the answer after its marker; only the parser can tell, so the content of that token
is searched after the parser.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..parsers.events import Content, Event
from ..parsers.held_back import HeldText
from .fallback import FallbackParser
from .special_tokens import SpecialTokenHider
from .stop_matcher import Piece, StopStringFilter


class StopFilteredParser:
    """Feeds a parser one token at a time until a stop string is complete.

    min_tokens: stop strings that are complete within this many tokens are ignored.
    matched: the stop string that ended the answer. The parser is then finished and must not be
        fed again.
    """

    def __init__(
        self,
        parser: FallbackParser | SpecialTokenHider,
        stops: StopStringFilter,
        min_tokens: int,
    ) -> None:
        self._parser = parser
        self._filter = stops
        self._min_tokens = min_tokens
        self._tokens = 0

    @property
    def matched(self) -> str | None:
        """The stop string that ended the answer; None so far."""
        return self._filter.matched

    @property
    def held(self) -> list[HeldText]:
        """The text that a stop string may still claim, for display."""
        return self._filter.held

    def feed(self, text: str, token_ids: Sequence[int]) -> list[Event]:
        """Return the events that one token completes, including the final ones after a match.

        token_ids: exactly one. Raises as `FallbackParser.feed`.
        """
        pieces = self._check(text, token_ids[0])
        if self.matched is not None:
            return self._finish(pieces, cut=False)
        return self._parse(pieces)

    def finish(self, text: str, token_ids: Sequence[int], *, cut: bool) -> list[Event]:
        """Return the events of the last token, if any, and of all held-back text."""
        pieces = self._check(text, token_ids[0]) if token_ids else []
        if self.matched is None:
            pieces += self._filter.flush()
        return self._finish(pieces, cut=cut and self.matched is None)

    def _check(self, text: str, token_id: int) -> list[Piece]:
        """Return the pieces that no stop string can claim any more."""
        self._tokens += 1
        if self._parser.in_reasoning:
            return [*self._filter.flush(), (text, token_id)]
        return self._filter.feed(text, token_id, min_tokens_reached=self._min_tokens_reached)

    @property
    def _min_tokens_reached(self) -> bool:
        return self._tokens > self._min_tokens

    def _parse(self, pieces: Iterable[Piece]) -> list[Event]:
        events: list[Event] = []
        for text, token_id in pieces:
            if token_id is None:
                events += [Content(text)] if text else []
                continue
            was_reasoning = self._parser.in_reasoning
            parsed = self._parser.feed(text, (token_id,))
            if was_reasoning and not self._parser.in_reasoning:
                parsed = self._check_parsed(parsed)
                if self.matched is not None:
                    return events + parsed + self._parser.finish()
            events += parsed
        return events

    def _finish(self, pieces: list[Piece], *, cut: bool) -> list[Event]:
        *first, (text, token_id) = pieces or [("", None)]
        had_matched = self.matched is not None
        events = self._parse(first)
        if self.matched is not None and not had_matched:
            return events  # a match has finished the parser
        checks = self._parser.in_reasoning and not had_matched
        if token_id is None:
            events += self._parse([(text, None)])
            last = self._parser.finish(cut=cut)
        else:
            last = self._parser.finish(text, (token_id,), cut=cut)
        if checks:
            last = self._check_parsed(last)
            last += [Content(rest) for rest, _ in self._filter.flush() if rest]
        return events + last

    def _check_parsed(self, events: list[Event]) -> list[Event]:
        """Search the content of the token that ended reasoning.

        The parser has read this text and must not read it again, so the filter gets it without a
        token id.
        """
        checked: list[Event] = []
        for event in events:
            if isinstance(event, Content):
                pieces = self._filter.feed(
                    event.text, None, min_tokens_reached=self._min_tokens_reached
                )
                checked += [Content(text) for text, _ in pieces if text]
            else:
                checked.append(event)
        return checked
