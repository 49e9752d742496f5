"""Models without parsers: all text is content."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from .base import ParserFactory, ParserRequest, StreamParser
from .events import Content, Event
from .held_back import HeldText


class PassthroughParser(StreamParser):
    """Passes all text on as content."""

    token_aligned = False
    in_reasoning = False
    reasoning_tokens = 0

    @property
    @override
    def held(self) -> Sequence[HeldText]:
        return ()

    @override
    def reads_together(self, token_ids: Sequence[int]) -> bool:
        return True

    @override
    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        return [Content(text)] if text else []

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        return self.feed(text)


class PassthroughParsers(ParserFactory):
    """Builds the parsers of a model without named parsers."""

    name = "none"

    @override
    def shows_special_tokens(self, request: ParserRequest) -> bool:
        return False

    @override
    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> StreamParser:
        return PassthroughParser()
