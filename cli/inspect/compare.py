"""The first difference of two parsers on the same tokens.

One parser may give text out later than the other, or in other pieces; that is no difference. The
outputs differ at the first token behind which neither is a beginning of the other. What one has
given out and the other has not waits in a queue, so the cost grows with the output only.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from ...postprocess.messages import ChoiceDelta
from .trace import Step


class Difference(msgspec.Struct, frozen=True):
    """step: the number of the token, from 0. left, right: what each side has given out there."""

    step: int
    left: str
    right: str


class _Part(NamedTuple):
    """A part of an output. key: kind, and for calls the number. text: its text, if it has any."""

    key: tuple[str | int | None, ...]
    text: str = ""

    def describe(self) -> str:
        """Return the part in words."""
        words = " ".join(str(word) for word in self.key if word is not None)
        return f'{words} "{_shorten(self.text)}"' if self.text else words


# Characters of a part that a difference shows.
MAX_SHOWN = 120
NOTHING = "nothing more"


class _Lead:
    """What one side has given out and the other has not."""

    def __init__(self) -> None:
        self.parts: deque[_Part] = deque()
        self.is_left = True  # whose it is

    def add(self, part: _Part, *, from_left: bool) -> _Part | None:
        """Take a part of a side; return the rest of it that contradicts the other side."""
        if not self.parts:
            self.is_left = from_left
        if self.is_left is from_left:
            self.parts.append(part)
            return None
        rest = _match(self.parts, part)
        if rest is None or self.parts:
            return rest
        self.parts.append(rest)
        self.is_left = from_left
        return None

    def describe(self, step: int, rest: _Part | None) -> Difference:
        """Return the difference at `step`. rest: what the other side has there."""
        first = self.parts[0]
        same = itertools.takewhile(lambda part: part.key == first.key, self.parts)
        ahead = first._replace(
            text="".join(part.text for part in itertools.islice(same, MAX_SHOWN))
        )
        shown = [part.describe() if part else NOTHING for part in (ahead, rest)]
        left, right = shown if self.is_left else reversed(shown)
        return Difference(step, left, right)


def find_difference(left: Sequence[Step], right: Sequence[Step]) -> Difference | None:
    """Return the first difference of two traces of the same tokens; None if there is none."""
    lead = _Lead()
    for number, steps in enumerate(zip(left, right, strict=True)):
        for is_left, step in zip((True, False), steps, strict=True):
            for part in _parts(step.deltas):
                rest = lead.add(part, from_left=is_left)
                if rest is not None:
                    return lead.describe(number, rest)
    return lead.describe(len(left) - 1, None) if lead.parts else None


def _parts(deltas: Sequence[ChoiceDelta]) -> Iterator[_Part]:
    """Yield what deltas hold, without roles and ids of calls, which are drawn."""
    for choice in deltas:
        delta = choice.delta
        if delta.reasoning_content:
            yield _Part(("reasoning",), delta.reasoning_content)
        if delta.content:
            yield _Part(("content",), delta.content)
        for call in delta.tool_calls:
            if call.function.name is not None:
                yield _Part(("call", call.index, call.function.name))
            if call.function.arguments:
                yield _Part(("arguments of call", call.index), call.function.arguments)
        if choice.finish_reason is not None:
            yield _Part(("finish", choice.finish_reason, choice.stop_reason))


def _match(ahead: deque[_Part], part: _Part) -> _Part | None:
    """Take `part` from the front of `ahead`; return the rest that did not match, if any.

    If `ahead` is not empty then, its front contradicts the rest.
    """
    while ahead:
        first = ahead[0]
        if first.key != part.key:
            return part
        length = min(len(first.text), len(part.text))
        if first.text[:length] != part.text[:length]:
            same = _common(first.text, part.text)
            ahead[0] = first._replace(text=first.text[same:])
            return part._replace(text=part.text[same:])
        if len(first.text) > length:
            ahead[0] = first._replace(text=first.text[length:])
            return None
        ahead.popleft()
        if len(part.text) == length:
            return None
        part = part._replace(text=part.text[length:])
    return part


def _common(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next(position for position, (a, b) in pairs if a != b)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}\u2026"
