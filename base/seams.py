"""Seams: what Backedge takes of another project without that project's promise.

A seam is a replaced function, a subclass of an internal class, a read of a private name, a pattern
over a source text, or the text of an error. Each is one row of its project's `seams.py`, and all
rows of a role are checked when the process starts: a version that nobody has tried then stops with
one sentence, and not in the middle of a request.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import inspect
from collections.abc import Iterable
from typing import Literal

import msgspec

from .errors import SetupError

Role = Literal["worker", "frontend", "parsers", "offline"]
Kind = Literal["replaced", "subclassed", "called", "read", "text"]
"""How a seam is used: its function is replaced, its class subclassed, it is called although it is
private, its value is read or set, or its text is searched."""


class Seam(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a project's table.

    name: "module:path", of a function, a class or a value; in a class also of a field.
    kind: how it is used.
    role: in which kind of process.
    since: the first version that has it, as far as it was tried.
    why: why there is no public way.
    without: what does not work without it.
    parameters: the first parameters of the function or class; empty if they do not matter.
    contains: texts that its source has.
    feature: what alone is switched off if the row does not hold; empty if the process must not
        start.
    """

    name: str
    kind: Kind
    role: Role
    since: str
    why: str
    without: str
    parameters: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()
    feature: str = ""

    @property
    def module(self) -> str:
        """The module that has it."""
        return self.name.partition(":")[0]

    @property
    def path(self) -> str:
        """Its attributes from the module on, joined by dots; empty for the module itself."""
        return self.name.partition(":")[2]

    @property
    def how_checked(self) -> str:
        """How `find_fault` checks it, in words."""
        if self.contains:
            return "its source has " + ", ".join(repr(text) for text in self.contains)
        if self.parameters:
            return f"it takes ({', '.join(self.parameters)}, ...)"
        return "it exists"


def find_fault(seam: Seam) -> str | None:
    """Return what is wrong with a seam in the installed versions; None if it holds.

    Imports its module, but starts nothing.
    """
    try:
        module = importlib.import_module(seam.module)
    except ImportError as error:
        return f"{seam.module} cannot be imported ({error})"
    target, missing = _resolve(module, seam.path)
    if missing:
        return f"{seam.module} has no {missing}"
    if seam.parameters:
        found = _parameters(target)
        if found is None:
            return f"{seam.name} cannot be called"
        if found[: len(seam.parameters)] != seam.parameters:
            return (
                f"{seam.name} takes ({', '.join(found)}) in place of "
                f"({', '.join(seam.parameters)}, ...)"
            )
    if seam.contains:
        source = _source(target)
        for text in seam.contains:
            if text not in source:
                return f"the source of {seam.name} has no {text!r}"
    return None


def check_seams(seams: Iterable[Seam], packages: Iterable[str]) -> None:
    """Raise `SetupError` for the first seam that does not hold and that no feature stands for.

    packages: the distributions whose versions the message names.
    """
    for seam in seams:
        if seam.feature:
            continue
        fault = find_fault(seam)
        if fault is not None:
            versions = ", ".join(f"{package} {read_version(package)}" for package in packages)
            raise SetupError(
                f"{fault}, which Backedge needs ({seam.without}); installed: {versions}. "
                "Install versions that docs/compatibility.md lists, or drop Backedge's flags."
            )


def read_version(package: str) -> str:
    """Return the installed version of a package, or "none"."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _resolve(target: object, path: str) -> tuple[object, str]:
    """Return what a path leads to, and the first name on it that is not there."""
    walked: list[str] = []
    for name in filter(None, path.split(".")):
        walked.append(name)
        if hasattr(target, name):
            target = getattr(target, name)
        elif inspect.isclass(target) and _has_field(target, name):
            target = None  # set in instances only
        else:
            return None, ".".join(walked)
    return target, ""


def _has_field(owner: type, name: str) -> bool:
    """Whether instances of a class have a field: declared, or set in a method."""
    if dataclasses.is_dataclass(owner) and name in {
        field.name for field in dataclasses.fields(owner)
    }:
        return True
    for base in owner.__mro__[:-1]:
        if name in inspect.get_annotations(base) or f"self.{name}" in _source(base):
            return True
    return False


def _parameters(target: object) -> tuple[str, ...] | None:
    if not callable(target):
        return None
    try:
        return tuple(inspect.signature(target).parameters)
    except ValueError:
        return None


def _source(target: object) -> str:
    try:
        return inspect.getsource(target)  # type: ignore[arg-type]  # raises TypeError for others
    except (OSError, TypeError):
        return ""
