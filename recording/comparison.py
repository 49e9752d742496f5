"""Finds the first difference between two answers.

The cutting and merging of deltas and the ids of calls are not differences. An answer is compared
as a sequence of parts: text of one kind, the name of a call, its arguments, the finish.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

import msgspec

from ..postprocess.messages import ChoiceDelta

REASONING, CONTENT, CALL, ARGUMENTS, FINISH = "reasoning", "content", "call", "arguments", "finish"


class Given(NamedTuple):
    """Deltas, and the number of their choice's tokens when they came."""

    tokens: int
    deltas: Sequence[ChoiceDelta]


class Part(msgspec.Struct):
    """A run of output of one kind, across deltas.

    index: of a call. pieces: the text in pieces, each with the token count and delta of its origin.
    """

    kind: str
    index: int | None
    pieces: list[tuple[str, int, ChoiceDelta]]

    @property
    def key(self) -> tuple[str, int | None]:
        """The kind and call that a part shares with its continuation."""
        return self.kind, self.index

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(text for text, _, _ in self.pieces)

    def find(self, position: int) -> tuple[int, ChoiceDelta]:
        """Return token count and delta of the character at `position`, or of the last one."""
        end = 0
        for text, tokens, delta in self.pieces:
            end += len(text)
            if position < end:
                return tokens, delta
        _, tokens, delta = self.pieces[-1]
        return tokens, delta


class Side(msgspec.Struct, frozen=True):
    """One side of a difference. text: from the difference on. delta: its origin."""

    kind: str
    text: str
    delta: ChoiceDelta | None


class Difference(msgspec.Struct, frozen=True):
    """The point at which two answers diverge.

    choice: its index. token: number of the choice's tokens at that point, on the later side.
    left, right: what each side has from there.
    """

    choice: int
    token: int
    left: Side
    right: Side


NOTHING = Side("nothing", "", None)
UNKNOWN = "?"


def split_parts(
    given: Iterable[Given], choice: int, declared: Collection[str] | None = None
) -> list[Part]:
    """Split the deltas of a choice into parts.

    declared: the function names to keep when all other text is dropped; None to keep all text.
    """
    parts: list[Part] = []
    for tokens, deltas in given:
        for delta in deltas:
            if delta.index != choice:
                continue
            for kind, index, text in split_delta(delta):
                shown = text if declared is None else _hide(kind, text, declared)
                if parts and parts[-1].key == (kind, index) and kind not in (CALL, FINISH):
                    parts[-1].pieces.append((shown, tokens, delta))
                else:
                    parts.append(Part(kind, index, [(shown, tokens, delta)]))
    return parts


def _hide(kind: str, text: str, declared: Collection[str]) -> str:
    if kind == CALL:
        return text if text in declared else UNKNOWN
    return text if kind == FINISH else ""


def split_delta(
    delta: ChoiceDelta, stopped: str = " ({})"
) -> Iterator[tuple[str, int | None, str]]:
    """Yield the parts of a delta as a client reads them: kind, index of the call, text.

    stopped: how the finish names a stop reason.
    """
    part = delta.delta
    for kind, text in ((REASONING, part.reasoning_content), (CONTENT, part.content)):
        if text:
            yield kind, None, text
    for call in part.tool_calls:
        if call.function.name is not None:
            yield CALL, call.index, call.function.name
        if call.function.arguments:
            yield ARGUMENTS, call.index, call.function.arguments
    if delta.finish_reason is not None:
        stop = "" if delta.stop_reason is None else stopped.format(delta.stop_reason)
        yield FINISH, None, delta.finish_reason + stop


def find_difference(
    left: Sequence[Part], right: Sequence[Part], choice: int, *, left_is_cut: bool = False
) -> Difference | None:
    """Return the first difference of two choices; None if they are equal.

    left_is_cut: the left one may end anywhere, for example because its client disconnected.
    """
    for number, (one, other) in enumerate(zip_longest(left, right), 1):
        if one is None and left_is_cut:
            return None
        if one is None or other is None or one.key != other.key:
            return _describe(one, other, 0, choice)
        ours, theirs = one.text, other.text
        if ours == theirs:
            continue
        if left_is_cut and number == len(left) and theirs.startswith(ours):
            return None
        return _describe(one, other, _common(ours, theirs), choice)
    return None


def _common(left: str, right: str) -> int:
    """Return the length of the common prefix."""
    pairs = enumerate(zip(left, right, strict=False))
    shorter = min(len(left), len(right))
    return next((position for position, (one, other) in pairs if one != other), shorter)


def _describe(left: Part | None, right: Part | None, position: int, choice: int) -> Difference:
    tokens: list[int] = []
    sides = []
    for part in (left, right):
        if part is None:
            sides.append(NOTHING)
            continue
        token, delta = part.find(position)
        tokens.append(token)
        name = part.kind if part.index is None else f"{part.kind} of call {part.index}"
        sides.append(Side(name, part.text[position:], delta))
    return Difference(choice, max(tokens), *sides)
