"""Keeps special tokens that only the parser needs out of the content."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from typing_extensions import override

from ..parsers.base import ParserWrapper, StreamParser
from ..parsers.events import Content, Event


class SpecialTokenHider(ParserWrapper):
    """Feeds a parser one token at a time; drops special tokens that it returns as content.

    is_special: whether a token id is that of a special token.
    """

    def __init__(self, parser: StreamParser, is_special: Callable[[int], bool]) -> None:
        super().__init__(parser)
        self._is_special = is_special

    @override
    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        return self._hide(self._inner.feed(text, token_ids), text, token_ids)

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        return self._hide(self._inner.finish(text, token_ids, cut=cut), text, token_ids)

    def _hide(self, events: list[Event], text: str, token_ids: Sequence[int]) -> list[Event]:
        if not (text and token_ids and self._is_special(token_ids[0])):
            return events
        return [
            Content(event.text.removesuffix(text)) if isinstance(event, Content) else event
            for event in events
            if not (isinstance(event, Content) and event.text == text)
        ]
