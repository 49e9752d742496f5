"""Replaces missing content by the reasoning, for answers that must not be empty."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from .base import ParserWrapper, StreamParser
from .events import Content, Event, Reasoning, ToolCallStarted

# The chat_template_kwargs with which a request asks for this.
FLAG = "force_nonempty_content"


class NonemptyContent(ParserWrapper):
    """Repeats the reasoning as content at the end of an answer without anything else.

    Keeps the reasoning until the first content or call.
    Source: vllm 0.31 parser/nemotron_v3.py, sglang parser/reasoning_parser.py. Without a stream
    both then omit the reasoning, which a stream has already sent.
    """

    def __init__(self, inner: StreamParser) -> None:
        super().__init__(inner)
        self._reasoning: list[str] | None = []

    @override
    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        return self._keep(self._inner.feed(text, token_ids))

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        events = self._keep(self._inner.finish(text, token_ids, cut=cut))
        reasoning, self._reasoning = "".join(self._reasoning or ()), None
        return [*events, Content(reasoning)] if reasoning else events

    def _keep(self, events: list[Event]) -> list[Event]:
        """Keep the reasoning in `events`; drop it at the first content or call."""
        for event in events:
            match event:
                case ToolCallStarted():
                    self._reasoning = None
                case Content(content) if content.strip():
                    self._reasoning = None
                case Reasoning(thought) if self._reasoning is not None:
                    self._reasoning.append(thought)
                case _:
                    pass
        return events
