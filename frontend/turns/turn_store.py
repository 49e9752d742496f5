"""Keeps turns in bounded memory."""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from ...base.limits import MAX_TURN_BYTES

# Memory of an entry besides its bytes: the key, and its place in the dict and in the order of use.
ENTRY_BYTES = 300


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer.

    reasoning: its text. prompt_length, prompt_digest: of the prompt's token ids.
    generated: the token ids, of four bytes each; none unless they are to be put into a prompt.
    hidden: the client has not seen the reasoning.
    ambiguous: the same conversation and answer had other reasoning, too, so it is not restored.
    """

    reasoning: str
    prompt_length: int = 0
    prompt_digest: bytes = b""
    generated: bytes = b""
    hidden: bool = False
    ambiguous: bool = False

    @property
    def token_ids(self) -> list[int]:
        """The generated token ids."""
        return array("I", self.generated).tolist()

    def join(self, other: Turn) -> Turn:
        """Return what two answers have in common to which a client's message may refer."""
        if self == other:
            return other
        if self.ambiguous or other.ambiguous or self.reasoning != other.reasoning:
            return Turn("", ambiguous=True)
        return Turn(self.reasoning, hidden=self.hidden or other.hidden)


def pack_token_ids(token_ids: Sequence[int]) -> bytes:
    """Return token ids as bytes, four for each."""
    return array("I", token_ids).tobytes()


# Why answers were not kept or not restored, or a request was left alone.
REASONS = (
    *("unknown", "ambiguous", "shown", "prompt", "end", "answer", "refused"),
    *("cut", "malformed", "size", "continued"),
    *("scope", "media", "not JSON", "store"),
)


class TurnCounts(msgspec.Struct):
    """Counters of the frontend's turns.

    kept: answers. restored: answers whose reasoning was put into a later request. spliced: answers
        whose generated token ids were. fetched: answers that came from the frontends' store.
        missed: the rest, by reason.
    """

    kept: int = 0
    restored: int = 0
    spliced: int = 0
    fetched: int = 0
    missed: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(REASONS, 0))


class TurnStore:
    """The turns used last, of all models. capacity: in bytes.

    Several threads may call the methods at once.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.counts = TurnCounts()
        self._size = 0
        self._lock = threading.Lock()
        self._entries: OrderedDict[bytes, bytes] = OrderedDict()

    @property
    def size(self) -> int:
        """Memory of all entries in bytes."""
        return self._size

    def __contains__(self, key: bytes) -> bool:
        return key in self._entries

    def find(self, key: bytes) -> Turn | None:
        """Return the turn, or None."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
        return msgspec.msgpack.decode(found, type=Turn)

    def add(self, key: bytes, turn: Turn) -> Turn | None:
        """Keep a turn, or what it has in common with an earlier one; None if it is too large."""
        with self._lock:
            if (earlier := self._entries.get(key)) is not None:
                turn = msgspec.msgpack.decode(earlier, type=Turn).join(turn)
            # A copy: msgspec's own buffer is up to half larger than its text.
            entry = bytes(memoryview(msgspec.msgpack.encode(turn)))
            if len(entry) > MAX_TURN_BYTES:
                return None
            self._drop(key)
            self._entries[key] = entry
            self._size += len(entry) + ENTRY_BYTES
            while self._size > self.capacity:
                self._drop(next(iter(self._entries)))
        return turn

    def _drop(self, key: bytes) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self._size -= len(entry) + ENTRY_BYTES
