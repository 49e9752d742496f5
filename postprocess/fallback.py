"""A parser that raises costs its own request what it must, and no other anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from ..parsers.base import ParserFactory, ParserRequest, StreamParser
from ..parsers.errors import ParserFailedError
from ..parsers.events import Content, Event
from ..parsers.passthrough import PassthroughParser

OnError = Literal["degrade", "fail"]
Report = Callable[[ParserFailedError], None]


class FallbackParser:
    """Feeds a parser of `parsers` until it raises; from there on the raw text is content.

    report: told of the failure, once.
    What the parser had swallowed since its last event comes out again as raw
    text, markers included, so nothing the model wrote is lost.
    """

    def __init__(
        self,
        parsers: ParserFactory,
        request: ParserRequest,
        prompt_token_ids: Sequence[int],
        request_id: str,
        on_error: OnError,
        report: Report,
    ) -> None:
        self._name = parsers.name
        self._request_id = request_id
        self._on_error = on_error
        self._report = report
        self._position = 0
        self._unanswered: list[str] = []
        self._inner: StreamParser = PassthroughParser()
        self.failed = False
        try:
            self._inner = parsers(request, prompt_token_ids)
        except Exception as error:  # noqa: BLE001 - as in feed
            self._fail(error)

    @property
    def token_aligned(self) -> bool:
        """See `StreamParser`."""
        return self._inner.token_aligned

    @property
    def in_reasoning(self) -> bool:
        """See `StreamParser`."""
        return self._inner.in_reasoning and not self.failed

    @property
    def reasoning_tokens(self) -> int:
        """See `StreamParser`."""
        return self._inner.reasoning_tokens

    def reads_together(self, token_ids: Sequence[int]) -> bool:
        """See `StreamParser`."""
        return self.failed or self._inner.reads_together(token_ids)

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        """See `StreamParser`. Raises `ParserFailedError` if `on_error` is "fail"."""
        if self.failed:
            return _content(text)
        try:
            events = self._inner.feed(text, token_ids)
        except Exception as error:  # noqa: BLE001 - a parser is third-party code on untrusted text
            return self._degraded(error, text, token_ids)
        self._position += len(token_ids)
        if not events:
            if text:
                self._unanswered.append(text)
        elif self._unanswered:
            self._unanswered.clear()
        return events

    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        """See `StreamParser`. Raises `ParserFailedError` if `on_error` is "fail"."""
        if self.failed:
            return _content(text)
        try:
            return self._inner.finish(text, token_ids, cut=cut)
        except Exception as error:  # noqa: BLE001 - as in feed
            return self._degraded(error, text, token_ids)

    def degrade(self, error: Exception) -> list[Event]:
        """Leave the parser as if it had raised `error`; return what it has swallowed."""
        return [] if self.failed else self._degraded(error, "", ())

    def _degraded(self, error: Exception, text: str, token_ids: Sequence[int]) -> list[Event]:
        self._position += len(token_ids)
        self._unanswered.append(text)
        self._fail(error)
        return _content("".join(self._unanswered))

    def _fail(self, error: Exception) -> None:
        self.failed = True
        failure = ParserFailedError(self._name, self._request_id, self._position, error)
        self._report(failure)
        if self._on_error == "fail":
            raise failure from error


def _content(text: str) -> list[Event]:
    return [Content(text)] if text else []
