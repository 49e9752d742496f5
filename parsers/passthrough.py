"""Models without parsers: all text is content."""

from __future__ import annotations

from collections.abc import Sequence

from .base import ParserRequest, StreamParser
from .events import Content, Event


class PassthroughParser:
    """No parser: all text is content."""

    token_aligned = False
    in_reasoning = False
    reasoning_tokens = 0

    def reads_together(self, token_ids: Sequence[int]) -> bool:
        """See `StreamParser`."""
        return True

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        """See `StreamParser`."""
        return [Content(text)] if text else []

    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        """See `StreamParser`."""
        return self.feed(text)


class PassthroughParsers:
    """The factory for models without parsers."""

    name = "none"

    def shows_special_tokens(self, request: ParserRequest) -> bool:
        """See `ParserFactory`."""
        return False

    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> StreamParser:
        """See `ParserFactory`."""
        return PassthroughParser()
