"""The basics of the kit: the tokenizer under test, a check, and assertions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...tokenization.custom_tokenizer import CheckedTokenizer
from ...tokenization.errors import ContractError

SHOWN = 30


class TokenizerUnderTest:
    """The tokenizer that the kit checks.

    factory: makes an instance. Called again after a failed check, and by checks that need an
        instance of their own.
    """

    def __init__(self, factory: Callable[[], object]) -> None:
        self.factory = factory
        self._instance: object = None

    @property
    def instance(self) -> Any:
        """The tokenizer itself."""
        if self._instance is None:
            self.construct()
        return self._instance

    def construct(self) -> None:
        """Make an instance now. Raises what the factory raises."""
        self._instance = self.factory()

    @property
    def tokenizer(self) -> CheckedTokenizer:
        """The instance, with its results validated as in production."""
        return wrap_checked(self.instance)

    def discard(self) -> None:
        """Let the next check make a new instance."""
        self._instance = None


class Check(NamedTuple):
    """One requirement. name: short, unique. requirement: in words, for reports.

    run: returns what it observed; raises `ContractError` if the requirement is not met.
    needs: the optional attribute that is checked. basic: if this fails, no other check runs.
    """

    name: str
    requirement: str
    run: Callable[[TokenizerUnderTest], str]
    needs: str = ""
    basic: bool = False

    @property
    def required(self) -> bool:
        """Whether the check applies to every tokenizer."""
        return not self.needs


def wrap_checked(tokenizer: object) -> CheckedTokenizer:
    """Return `tokenizer` with its results validated, under the name of its class."""
    return CheckedTokenizer(type(tokenizer).__name__, tokenizer)


def has_own_attribute(tokenizer: object, name: str) -> bool:
    """Whether `tokenizer` has an attribute `name` that it does not inherit from `object`."""
    return hasattr(tokenizer, name) and getattr(type(tokenizer), name, tokenizer) is not getattr(
        object, name, None
    )


def require(condition: bool, message: str) -> None:
    """Raise `ContractError` with `message` unless `condition` holds."""
    if not condition:
        raise ContractError(message)


def require_equal(found: Sequence[object], expected: Sequence[object], subject: str) -> None:
    """Require equal texts or lists; report the position of the first difference."""
    if found == expected:
        return
    start = max(common_prefix_length(found, expected) - SHOWN // 2, 0)
    here, there = (repr(items[start : start + SHOWN]) for items in (found, expected))
    place = (
        f" (from {start:,} on; {len(found):,} long, not {len(expected):,})"
        if len(expected) > SHOWN
        else ""
    )
    raise ContractError(f"{subject}: {here} instead of {there}{place}")


def common_prefix_length(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the number of equal items at the beginning of both."""
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)
