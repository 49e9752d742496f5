"""What the kit's checks are made of: the tokenizer under test, a check, and how one says what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..checked import CheckedTokenizer
from ..errors import ContractError

SHOWN = 30


class Subject:
    """The tokenizer under test.

    factory: makes an instance; a new one is made where a check wants its own, and after
        a check has failed.
    """

    def __init__(self, factory: Callable[[], Any]) -> None:
        self.factory = factory
        self._made: Any = None

    @property
    def made(self) -> Any:
        """The instance itself."""
        if self._made is None:
            self.construct()
        return self._made

    def construct(self) -> None:
        """Make an instance now. Raises what the factory raises."""
        self._made = self.factory()

    @property
    def tokenizer(self) -> CheckedTokenizer:
        """The instance, its results checked as in production."""
        return guarded(self.made)

    def drop(self) -> None:
        """Have the next check make an instance of its own."""
        self._made = None


class Check(NamedTuple):
    """One demand. name: short, unique. demand: what a tokenizer has to do.

    needs: the optional attribute that it is about. package: the optional package it takes.
    basic: nothing else is worth trying if this fails.
    """

    name: str
    demand: str
    run: Callable[[Subject], str]
    needs: str = ""
    package: str = ""
    basic: bool = False

    @property
    def required(self) -> bool:
        """Whether it is for every tokenizer."""
        return not self.needs and not self.package


def guarded(tokenizer: Any) -> CheckedTokenizer:
    """Return `tokenizer` with its results checked, under the name of its class."""
    return CheckedTokenizer(type(tokenizer).__name__, tokenizer)


def offers(tokenizer: Any, name: str) -> bool:
    """Whether `tokenizer` has an attribute that not every object has."""
    return hasattr(tokenizer, name) and getattr(type(tokenizer), name, tokenizer) is not getattr(
        object, name, None
    )


def demand(held: bool, otherwise: str) -> None:
    """Raise `ContractError` with the text `otherwise` unless `held`."""
    if not held:
        raise ContractError(otherwise)


def same(found: Sequence[Any], expected: Sequence[Any], what: str) -> None:
    """Demand equal texts or equal lists, and show where they part."""
    if found == expected:
        return
    start = max(parting(found, expected) - SHOWN // 2, 0)
    here, there = (repr(items[start : start + SHOWN]) for items in (found, expected))
    place = (
        f" (from {start:,} on; {len(found):,} long, not {len(expected):,})"
        if len(expected) > SHOWN
        else ""
    )
    raise ContractError(f"{what}: {here} instead of {there}{place}")


def parting(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many items the two begin with in common."""
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)
