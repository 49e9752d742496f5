"""Special tokens that a parser has to see and the client does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..parsers.events import Content, Event
from .fallback import FallbackParser


class SpecialTokenHider:
    """Feeds a parser, and drops the special tokens that it passes on as content.

    is_special: whether a token id is that of a special token.
    """

    def __init__(self, parser: FallbackParser, is_special: Callable[[int], bool]) -> None:
        self._parser = parser
        self._is_special = is_special

    @property
    def token_aligned(self) -> bool:
        """Whether the parser wants one token at a time, with the text of that token."""
        return self._parser.token_aligned

    @property
    def in_reasoning(self) -> bool:
        """Whether the next text counts as reasoning."""
        return self._parser.in_reasoning

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        """Return the events of one token. Raises as `FallbackParser.feed`."""
        return self._hide(self._parser.feed(text, token_ids), text, token_ids)

    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        """Return the events of the last token, and of all that was held back."""
        return self._hide(self._parser.finish(text, token_ids, cut=cut), text, token_ids)

    def _hide(self, events: list[Event], text: str, token_ids: Sequence[int]) -> list[Event]:
        if not (text and token_ids and self._is_special(token_ids[0])):
            return events
        return [
            Content(event.text.removesuffix(text)) if isinstance(event, Content) else event
            for event in events
            if not (isinstance(event, Content) and event.text == text)
        ]
