"""Ways in which another version of a project can break a seam."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from backedge.base.seams import Seam

HEAP_TYPE = 1 << 9
# By these the source and the fields of a class would be found again.
OF_SOURCE = {
    *("__module__", "__qualname__", "__dict__", "__weakref__", "__annotations__", "__slots__"),
    *("__dataclass_fields__", "__firstlineno__"),
}


class Other:
    """Stands in for a class or a function of another version."""

    def __init__(self, other: object) -> None:
        raise AssertionError


def find_owner(row: Seam) -> tuple[Any, str]:
    """Return the last object on a row's path that can be changed, and the name to change there."""
    owner: Any = importlib.import_module(row.module)
    *parents, name = row.path.split(".")
    for parent in parents:
        inner = getattr(owner, parent)
        if not inspect.isclass(inner) or name not in vars(inner) or is_builtin(inner):
            # A field that is set in instances only, an inherited one, or a class in C or Rust.
            return owner, parent
        owner = inner
    return owner, name


def is_builtin(owner: type) -> bool:
    return not owner.__flags__ & HEAP_TYPE


def remove(row: Seam, monkeypatch: pytest.MonkeyPatch, **renamed: object) -> None:
    """Replace a class by one without the row's member, or remove a module's."""
    *parents, name = row.path.split(".")
    owner: Any = importlib.import_module(row.module)
    if not parents:
        for other, value in renamed.items():
            monkeypatch.setattr(owner, other, value, raising=False)
        monkeypatch.delattr(owner, name)
        return
    for parent in parents[:-1]:
        owner = getattr(owner, parent)
    members = vars(getattr(owner, parents[-1]))
    kept = {other: value for other, value in members.items() if other not in {*OF_SOURCE, name}}
    monkeypatch.setattr(owner, parents[-1], type(parents[-1], (), kept | renamed))


def delete(row: Seam, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove it."""
    remove(row, monkeypatch)


def rename(row: Seam, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give it another name."""
    remove(row, monkeypatch, **{f"{row.path.rpartition('.')[2]}_of_tomorrow": None})


def change(row: Seam, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give it another signature and source, or its class no such field."""
    monkeypatch.setattr(*find_owner(row), Other)


Break = Callable[[Seam, pytest.MonkeyPatch], None]
BREAKS: list[Break] = [delete, rename, change]


def is_checked(row: Seam, how: Break) -> bool:
    """Whether a break changes what is relied on: of some rows only that they exist."""
    fields = find_owner(row)[1] != row.path.split(".")[-1]
    has_signature = row.kind == "called" or row.parameters or row.keywords or row.contains
    return how is not change or fields or bool(has_signature)
