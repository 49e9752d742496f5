r"""Events whose text UTF-8 can encode: half a surrogate pair never leaves post-processing.

A model may write half of a pair as an escape sequence (`\ud83d`), and parsers that decode JSON
make a lone surrogate of it. No encoder takes that, so it would fail the answer, or end a process
of the pool. In an escape sequence strict JSON readers refuse it as well.

Two halves in succession become their character, also if they come in different events. A half
without its other half becomes U+FFFD, as a damaged character does in detokenization.
"""

from __future__ import annotations

import re

import msgspec

from ..parsers.events import Content, Event, Reasoning, ToolCallArguments, ToolCallStarted

TextEvent = Content | Reasoning | ToolCallArguments

_SURROGATE = re.compile("[\ud800-\udfff]")
_FIRST_HALF = re.compile("[\ud800-\udbff]")
# The same as escape sequences of JSON.
_HEX = "[0-9a-fA-F]"
_HIGH = rf"\\u[dD][89abAB]{_HEX}{{2}}"
_LOW = rf"\\u[dD][c-fC-F]{_HEX}{{2}}"
_ESCAPE = re.compile(
    rf"(?P<kept>{_HIGH}{_LOW}|\\(?!u[dD][89a-fA-F]{_HEX}{{2}}).)|\\u.{{4}}", re.DOTALL
)
# Text up to an escape sequence that is not complete, or that the other half may follow.
_COMPLETE = re.compile(
    r"(?:[^\\]++|\\[^u]"
    rf"|(?!{_HIGH})\\u{_HEX}{{4}}"
    rf"|{_HIGH}(?!(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?\Z)"
    rf"|\\u(?!{_HEX}{{0,3}}\Z|{_HEX}{{4}}))*+"
)


def mend_text(text: str) -> str:
    """Return `text` with the halves of a character joined, and lone ones replaced by U+FFFD."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mend_json(text: str) -> str:
    """Return JSON text, which may be incomplete, mended as `mend_text`, in escapes as well."""
    text = mend_text(text)
    return _ESCAPE.sub(_mend_escape, text) if "\\u" in text else text


def _mend_escape(match: re.Match[str]) -> str:
    return match["kept"] or r"\ufffd"


class EventMender:
    """Mends the events of one choice; holds back what may be half of a character.

    held: text held back, at most 11 characters.
    """

    def __init__(self) -> None:
        self.held = ""
        self._last: TextEvent | None = None  # whose end `held` is

    def passes(self, event: Event) -> bool:
        """Whether `event` is well-formed as it is, and may pass at once."""
        if self.held:
            return False
        text: str
        kind = event.__class__
        if kind is Content or kind is Reasoning:
            text = event.text  # type: ignore[union-attr]  # it is one of the two
            return text.isascii() or text.isprintable()  # no surrogate is printable
        if kind is not ToolCallArguments:
            return False
        text = event.text  # type: ignore[union-attr]  # it is one of these
        return "\\" not in text and text.isascii()

    def mend(self, event: Event) -> list[Event]:
        """Return `event` with its text well-formed, and before it what cannot wait any longer."""
        before = [] if self._continues(event) else self.flush()
        if isinstance(event, ToolCallStarted):
            call_id = event.id and mend_text(event.id)
            return [*before, ToolCallStarted(event.index, mend_text(event.name), call_id)]
        if not isinstance(event, TextEvent):
            return [*before, msgspec.structs.replace(event, text=mend_text(event.text))]
        text = self.held + event.text
        end = _find_end(text, is_json=isinstance(event, ToolCallArguments))
        self.held, self._last = text[end:], event
        return [*before, _with_text(event, text[:end])] if end else before

    def flush(self) -> list[Event]:
        """Return what is held back: its other half does not come."""
        text, self.held = self.held, ""
        return [_with_text(self._last, text)] if text and self._last is not None else []

    def _continues(self, event: Event) -> bool:
        last = self._last
        if isinstance(event, ToolCallArguments):
            return isinstance(last, ToolCallArguments) and last.index == event.index
        return isinstance(event, TextEvent) and event.__class__ is last.__class__


def _with_text(event: TextEvent, text: str) -> Event:
    """Return `event` with `text`, mended, in place of its own."""
    mended = mend_json(text) if isinstance(event, ToolCallArguments) else mend_text(text)
    return msgspec.structs.replace(event, text=mended)


def _find_end(text: str, *, is_json: bool) -> int:
    """Return where the part of `text` begins that has to wait for more."""
    if is_json and "\\" in text:
        complete = _COMPLETE.match(text)
        if complete is not None and complete.end() < len(text):
            return complete.end()
    return len(text) - 1 if _FIRST_HALF.match(text, len(text) - 1) else len(text)
