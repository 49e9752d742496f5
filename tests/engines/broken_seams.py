"""The uses of all seams as rows, and ways in which another version of a project breaks one."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from backedge.base.seams import Role, Seam, Seams, Use

HEAP_TYPE = 1 << 9
# By these the source and the fields of a class would be found again.
OF_SOURCE = {
    *("__module__", "__qualname__", "__dict__", "__weakref__", "__annotations__", "__slots__"),
    *("__dataclass_fields__", "__firstlineno__"),
}


class Row(NamedTuple):
    """One use of a seam."""

    role: Role
    seam: Seam
    use: Use

    @property
    def name(self) -> str:
        """The used name."""
        return self.use.name

    def alone(self) -> Seam:
        """Return a seam with this use alone."""
        seam = self.seam
        return Seam(
            self.use,
            why=seam.why,
            without=seam.without,
            feature=seam.feature,
        )


def list_rows(seams: Seams) -> list[Row]:
    """Return all uses of a project."""
    return [
        Row(role, seam, use) for role, some in seams.items() for seam in some for use in seam.uses
    ]


class Other:
    """Stands in for a class or a function of another version."""

    def __init__(self, other: object) -> None:
        raise AssertionError


def find_owner(use: Use) -> tuple[Any, str]:
    """Return the last object on a use's path that can be changed, and the name to change there."""
    owner: Any = importlib.import_module(use.module)
    *parents, name = use.path.split(".")
    for parent in parents:
        inner = getattr(owner, parent)
        if not inspect.isclass(inner) or name not in vars(inner) or is_builtin(inner):
            # A field that is set in instances only, an inherited one, or a class in C or Rust.
            return owner, parent
        owner = inner
    return owner, name


def is_builtin(owner: type) -> bool:
    return not owner.__flags__ & HEAP_TYPE


def remove(use: Use, monkeypatch: pytest.MonkeyPatch, **renamed: object) -> None:
    """Replace a class by one without the used member, or remove a module's."""
    *parents, name = use.path.split(".")
    owner: Any = importlib.import_module(use.module)
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


def delete(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove it."""
    remove(use, monkeypatch)


def rename(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give it another name."""
    remove(use, monkeypatch, **{f"{use.path.rpartition('.')[2]}_of_tomorrow": None})


def change(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give it another signature and source, or its class no such field."""
    monkeypatch.setattr(*find_owner(use), Other)


Break = Callable[[Use, pytest.MonkeyPatch], None]
BREAKS: list[Break] = [delete, rename, change]


def is_checked(use: Use, how: Break) -> bool:
    """Whether a break changes what is relied on: of some uses only that they exist."""
    fields = find_owner(use)[1] != use.path.split(".")[-1]
    has_signature = use.kind == "called" or use.parameters or use.keywords or use.contains
    return how is not change or fields or bool(has_signature)
