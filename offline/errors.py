"""Errors of offline generation: those that stop a batch, and those that stop a row."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ..base.errors import BackedgeError, FieldError, SetupError


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the nearest known name as a question, or all known names."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names) or 'none'}."


class UnknownOptionError(SetupError):
    """An option does not exist. owner: the object that was to have it, as text."""

    def __init__(self, owner: str, name: str, known: Iterable[str]) -> None:
        self.name = name
        super().__init__(f"{owner} has no option {name!r}; {suggest(name, known)}")


class OptionValueError(FieldError, SetupError):
    """An option has the wrong type or is out of range."""


class CapabilityError(SetupError):
    """A back end cannot do what a request, an option or a plugin requires.

    capability: the missing one, named as in `backend`.
    remedy: how the back end would get it; None if it never has it.
    """

    def __init__(
        self,
        asked: str,
        capability: str,
        backend: str,
        able: Iterable[str],
        remedy: str | None = None,
    ) -> None:
        self.capability, self.backend = capability, backend
        others = ", ".join(repr(name) for name in sorted(able) if name != backend)
        other = f"use {others}, or name one as fallback_backend" if others else "leave it out"
        remedy = other if remedy is None else f"{remedy}, or {other}"
        super().__init__(
            f"{asked} needs the capability {capability!r}, which the back end {backend!r} lacks; "
            f"{remedy}."
        )


class BackendUnavailableError(SetupError):
    """The library of a back end is not installed, or its version is not supported."""


class PluginError(SetupError):
    """A plugin does not suit the back end or the requests, or breaks its interface."""


class RowFailedError(BackedgeError):
    """A row of a strict batch cannot be generated. No row was generated.

    index: the position of the request. kind: as in `RowError`.
    """

    def __init__(self, request_id: str, index: int, kind: str, message: str) -> None:
        self.request_id, self.index, self.kind = request_id, index, kind
        super().__init__(f"request {request_id!r} (number {index}): {message}")
