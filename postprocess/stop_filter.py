"""Stop strings around a parser: they belong to the answer, and reasoning has none.

In the answer a stop string is looked for in the model's raw text, in front of the parser, so
that it also ends tool calls and markup. Reasoning passes unchecked. The token that ends
reasoning may hold the first text of the answer after its marker; the parser has read that text
when it becomes known as content, so there the check comes after the parser.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..parsers.events import Content, Event
from ..parsers.held_text import HeldText
from .fallback import FallbackParser
from .special_tokens import SpecialTokenHider
from .stop import Piece, StopStringFilter


class StopFilteredParser:
    """Feeds a parser one token at a time until a stop string is complete.

    min_tokens: a stop string that is complete within so many first tokens does not count.
    matched: the stop string that ended the answer; then the parser has been finished, and
        nothing may be fed any more.
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
        """The stop string that ended the answer, None while there is none."""
        return self._filter.matched

    @property
    def held(self) -> list[HeldText]:
        """The text that a stop string may still claim, for people."""
        return self._filter.held

    def feed(self, text: str, token_ids: Sequence[int]) -> list[Event]:
        """Return the events that one token completes, the last ones if a stop string is complete.

        token_ids: the one token. Raises as `FallbackParser.feed`.
        """
        pieces = self._check(text, token_ids[0])
        if self.matched is not None:
            return self._finish(pieces, cut=False)
        return self._parse(pieces)

    def finish(self, text: str, token_ids: Sequence[int], *, cut: bool) -> list[Event]:
        """Return the events of the last token, if there is one, and of all that was held back."""
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
            return events  # the parser has been finished
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
        """Check the content of the token that ended reasoning.

        The parser has read this text, so what the filter holds back of it must not be parsed
        again: it goes in without a token.
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
