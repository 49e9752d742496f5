"""The errors of generation without a server: what stops a batch, and what stops a row."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ..base.errors import BackedgeError, FieldError, SetupError


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the nearest known name as a question, or all of them: what to write instead."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names) or 'none'}."


class UnknownOptionError(SetupError):
    """There is no option of this name. owner: whose option it would be, in words."""

    def __init__(self, owner: str, name: str, known: Iterable[str]) -> None:
        self.name = name
        super().__init__(f"{owner} has no option {name!r}; {suggest(name, known)}")


class OptionValueError(FieldError, SetupError):
    """The value of an option is of a wrong type or out of its range."""


class CapabilityError(SetupError):
    """A back end cannot do what a request, an option or a plugin asks for.

    capability: the missing one; the names are those of `backends.base`.
    installs: what pip would have to install for it; None if the back end never has it.
    """

    def __init__(
        self,
        asked: str,
        capability: str,
        backend: str,
        able: Iterable[str],
        installs: str | None = None,
    ) -> None:
        self.capability, self.backend = capability, backend
        others = ", ".join(repr(name) for name in sorted(able) if name != backend)
        remedy = f"use {others}, or name one as fallback_backend" if others else "leave it out"
        if installs is not None:
            remedy = f"pip install {installs}, or {remedy}"
        super().__init__(
            f"{asked} needs the capability {capability!r}, which the back end {backend!r} lacks; "
            f"{remedy}."
        )


class BackendUnavailableError(SetupError):
    """The library of a back end is not installed, or not in a version that it supports."""


class PluginError(SetupError):
    """A plugin does not fit the back end or the requests, or it breaks its interface."""


class RowFailedError(BackedgeError):
    """A row cannot be generated, and the batch was to be strict. Nothing was generated.

    index: the position of the request. kind: as in `RowError`.
    """

    def __init__(self, request_id: str, index: int, kind: str, message: str) -> None:
        self.request_id, self.index, self.kind = request_id, index, kind
        super().__init__(f"request {request_id!r} (number {index}): {message}")
