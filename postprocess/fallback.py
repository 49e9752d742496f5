"""Falls back to raw text when a parser fails, so that a failure affects one request only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from typing_extensions import override

from ..base.errors import ParserFailedError
from ..base.limits import MAX_HELD_CHARACTERS
from ..parsers.base import ParserFactory, ParserRequest, ParserWrapper
from ..parsers.events import Content, Event, Reasoning
from ..parsers.forced_calls import wrap_forced_calls
from ..parsers.held_back import HeldText, hold_pieces
from ..parsers.passthrough import PassthroughParser
from .settings import OnError

Report = Callable[[ParserFailedError], None]


class HeldTooMuchError(Exception):
    """The parser has produced no event for more than `MAX_HELD_CHARACTERS` characters."""


class FallbackParser(ParserWrapper):
    """Feeds a parser until it raises; after that, the raw text is content.

    The text that no event has shown also becomes content, markers included, so the client gets
    all that the model wrote.

    on_error: with "fail", the method in which the parser raised raises `ParserFailedError`.
    report: called once, with the failure.
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
        self._held: list[str] = []
        self._held_characters = 0
        self._in_call = False  # the last event of a parser that cannot tell was a call's
        self._counted_tokens = 0  # reasoning tokens that the failed parser counted
        super().__init__(PassthroughParser())
        self.failed = False
        try:
            self._inner = wrap_forced_calls(parsers(request, prompt_token_ids), request)
        except BaseException as error:  # noqa: BLE001 - a parser is third-party code
            self._fail(error)
        self._is_opaque = self._inner.held is None

    @property
    @override
    def in_reasoning(self) -> bool:
        return self._inner.in_reasoning and not self.failed

    @property
    @override
    def reasoning_tokens(self) -> int:
        return self._counted_tokens + self._inner.reasoning_tokens

    @property
    @override
    def state_name(self) -> str:
        return "raw text" if self.failed else self._inner.state_name

    @property
    @override
    def held(self) -> Sequence[HeldText]:
        held = self._inner.held
        if held is None:
            return hold_pieces("native parser", reversed(self._held), self._held_characters)
        return held

    @property
    @override
    def outside_calls(self) -> bool:
        if self._is_opaque and not self.failed:
            return not (self._in_call or self._held_characters)
        return self._inner.outside_calls

    @override
    def reads_together(self, token_ids: Sequence[int]) -> bool:
        return self.failed or self._inner.reads_together(token_ids)

    @override
    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        if self.failed:
            return _content(text)
        try:
            events = self._inner.feed(text, token_ids)
        except BaseException as error:  # noqa: BLE001 - third-party code on untrusted text
            return self._fall_back(error, text, token_ids)
        self._position += len(token_ids)
        if not events:
            if text:
                return self._hold(text)
        elif self._is_opaque:
            rest = _find_rest("".join(self._held) + text, events[-1])
            self._in_call = not isinstance(events[-1], Content | Reasoning)
            self._held, self._held_characters = [rest], len(rest)
        elif self._held:
            self._held.clear()
            self._held_characters = 0
        return events

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        if self.failed:
            return _content(text)
        try:
            return self._inner.finish(text, token_ids, cut=cut)
        except BaseException as error:  # noqa: BLE001 - third-party code on untrusted text
            return self._fall_back(error, text, token_ids)

    def degrade(self, error: BaseException) -> list[Event]:
        """Drop the parser as if it had raised `error`; return the text that it held back."""
        return [] if self.failed else self._fall_back(error, "", ())

    def _hold(self, text: str) -> list[Event]:
        """Remember text for which the parser has not yet produced an event."""
        self._held.append(text)
        self._held_characters += len(text)
        if self._held_characters <= MAX_HELD_CHARACTERS:
            return []
        return self.degrade(HeldTooMuchError(f"no event for {self._held_characters} characters"))

    def _fall_back(self, error: BaseException, text: str, token_ids: Sequence[int]) -> list[Event]:
        self._position += len(token_ids)
        held, self._held = "".join(self._held) + text, []
        self._fail(error)
        return _content(held)

    def _fail(self, error: BaseException) -> None:
        # A panic of Rust code or a parser's SystemExit ends the request, not the worker.
        if isinstance(error, KeyboardInterrupt):
            raise error
        self.failed = True
        self._counted_tokens = self._inner.reasoning_tokens
        self._inner = PassthroughParser()  # frees the parser's state, which may be huge
        failure = ParserFailedError(self._name, self._request_id, self._position, error)
        self._report(failure)
        if self._on_error == "fail":
            raise failure from error


def _find_rest(text: str, last: Event) -> str:
    """Return what follows in `text` after that of its last event.

    An event of a call may spell its text otherwise, so nothing follows it.
    """
    if not isinstance(last, Content | Reasoning):
        return ""
    _, shown, rest = text.rpartition(last.text)
    return rest if shown else ""


def _content(text: str) -> list[Event]:
    return [Content(text)] if text else []
