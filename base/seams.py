"""Seams: the places where Backedge relies on what another project has not promised.

A seam is a replaced function, a subclass of an internal class, a read of a private name, a pattern
over a source text, or the text of an error. `engines/*/seams.py` declare them, by the moment when
they are checked, so that an untried version stops a process at its start with one sentence and does
not fail in the middle of a request.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from .errors import SetupError
from .log import get_logger

logger = get_logger(__name__)

Role = Literal[
    "flags",
    "worker",
    "frontend",
    "metrics",
    "parsers",
    "detokenizer",
    "offline",
    "replay",
    "server",
]
"""When a seam is checked: before our flags are added to an engine's; when a worker, a frontend or
the replay worker starts; when metrics are exposed; when native parsers, native detokenizers or
an offline back end load; or when the flags of an engine's own server name our parsers.
"""
Kind = Literal["replaced", "subclassed", "called", "read", "text"]
"""How a name is used: its function is replaced, its class subclassed, it is called although it is
private, its value is read or set, or its text is searched."""
Build = Callable[[Any], Callable[..., object]]
"""Returns the replacement of a function."""

DYNAMO = "ai-dynamo"


class Use(msgspec.Struct, frozen=True):
    """One use of another project's function, class, value or field.

    kind: how it is used.
    name: "module:path"; without a path, the module.
    takes: its first parameters and, after a star, those that are passed or read by name:
        "self, request, *, stream". Empty if they do not matter, or if it is called without
        arguments.
    contains: texts in its source.
    """

    kind: Kind
    name: str
    takes: str = ""
    contains: Sequence[str] = ()

    @property
    def module(self) -> str:
        """The module that has it."""
        return self.name.partition(":")[0]

    @property
    def path(self) -> str:
        """Its attributes from the module on, joined by dots; empty for the module itself."""
        return self.name.partition(":")[2]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Its first parameters."""
        return tuple(self.takes.partition("*")[0].replace(",", " ").split())

    @property
    def keywords(self) -> tuple[str, ...]:
        """The parameters that are passed or read by name."""
        return tuple(self.takes.partition("*")[2].replace(",", " ").split())

    @property
    def is_called_bare(self) -> bool:
        """Whether it is called without arguments."""
        return self.kind == "called" and not (self.takes or self.contains)

    @property
    def how_checked(self) -> str:
        """How `find_fault` checks it, in words."""
        checks = []
        if self.parameters:
            checks.append(f"takes ({', '.join(self.parameters)}, ...)")
        if self.keywords:
            checks.append(f"takes {', '.join(self.keywords)} by name")
        if self.is_called_bare:
            checks.append("needs no argument")
        if self.contains:
            checks.append("its source has " + ", ".join(repr(text) for text in self.contains))
        return "; ".join(checks) or "exists"


called = functools.partial(Use, "called")
read = functools.partial(Use, "read")
replaced = functools.partial(Use, "replaced")
subclassed = functools.partial(Use, "subclassed")


def text(name: str, *contains: str) -> Use:
    """Return the use of these texts in the source of `name`."""
    return Use("text", name, contains=contains)


class Seam:
    """The uses that Backedge needs for one reason.

    why: why there is no public way.
    without: the loss without them.
    feature: the only feature to switch off if one of them does not hold; empty if the process must
        not start.
    """

    def __init__(
        self,
        *uses: Use,
        why: str,
        without: str,
        feature: str = "",
    ) -> None:
        self.uses = uses
        self.why = why
        self.without = without
        self.feature = feature

    def find_fault(self) -> str | None:
        """Return the first fault of its uses; None if all hold."""
        return next(filter(None, map(find_fault, self.uses)), None)


Seams = Mapping[Role, Sequence[Seam]]
"""The seams in one project."""


def find_fault(use: Use) -> str | None:
    """Return what is wrong with a use in the installed versions; None if it holds.

    Imports its module, but starts nothing.
    """
    try:
        module = importlib.import_module(use.module)
        target, missing = _resolve(module, use.path)
    except Exception as error:  # noqa: BLE001 - an import may raise anything
        return f"{use.module} cannot be imported ({type(error).__name__}: {error})"
    if missing:
        return f"{use.module} has no {missing}"
    return _find_wrong_parameters(use, target) or _find_missing_text(use, target)


def check_seams(seams: Iterable[Seam], packages: Iterable[str]) -> frozenset[str]:
    """Return the features that are switched off, after one warning for each.

    packages: the distributions whose versions a message names.
    Raises `SetupError` for the first seam that does not hold and switches off no feature, and
        without Dynamo.
    """
    check_dynamo_installed(packages)
    off: set[str] = set()
    for seam in seams:
        fault = None if seam.feature in off else seam.find_fault()
        if fault is None:
            continue
        if not seam.feature:
            raise SetupError(
                f"{describe_fault(seam, fault, packages)}. Install versions that "
                "docs/compatibility.md lists, or drop Backedge's flags."
            )
        off.add(seam.feature)
        logger.warning("%s is off: %s", seam.feature, describe_fault(seam, fault, packages))
    return frozenset(off)


def check_dynamo_installed(packages: Iterable[str] = (DYNAMO,)) -> None:
    """Raise `SetupError` if Dynamo is among `packages` and missing."""
    if DYNAMO in packages and importlib.util.find_spec("dynamo") is None:
        raise SetupError(
            f"{DYNAMO} is not installed, and workers and frontends are Dynamo's; in a checkout of "
            "Backedge: pip install '.[dynamo,vllm]' or '.[dynamo,sglang]'; without an engine: pip "
            "install '.[light]', then pip install --no-deps ai-dynamo==1.6.1 "
            "ai-dynamo-runtime==1.6.1."
        )


def describe_fault(seam: Seam, fault: str, packages: Iterable[str]) -> str:
    """Return a fault in words, with what it costs and the installed versions."""
    versions = ", ".join(f"{package} {read_version(package)}" for package in packages)
    return f"{fault}, without which {seam.without} (found {versions})"


def find_replaced(seams: Iterable[Seam], name: str) -> Use:
    """Return the use by which one of `seams` declares a replaced function."""
    uses = (use for seam in seams for use in seam.uses)
    [replaced] = (use for use in uses if (use.name, use.kind) == (name, "replaced"))
    return replaced


def replace(use: Use, build: Build) -> None:
    """Replace the function of a use by what `build` returns for it."""
    *parents, name = use.path.split(".")
    owner = functools.reduce(getattr, parents, importlib.import_module(use.module))
    replacement = build(getattr(owner, name))
    is_static = isinstance(inspect.getattr_static(owner, name), staticmethod)
    setattr(owner, name, staticmethod(replacement) if is_static else replacement)


def read_version(package: str) -> str:
    """Return the installed version of a package, or "none"."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _resolve(target: object, path: str) -> tuple[object, str]:
    """Return the object at the end of a path, and the first missing name on the way."""
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
    is_set = re.compile(rf"\bself\.{name}\b[^=\n]*=(?!=)")
    return any(
        name in inspect.get_annotations(base) or is_set.search(_source(base))
        for base in owner.__mro__[:-1]
    )


def _find_wrong_parameters(use: Use, target: object) -> str | None:
    if not (use.parameters or use.keywords or use.is_called_bare):
        return None
    if use.is_called_bare:
        return _find_needed(use, target)
    found = _read_parameters(target)
    if found is None:
        return f"{use.name} cannot be called"
    if tuple(found)[: len(use.parameters)] != use.parameters:
        wanted = ", ".join(use.parameters)
        return f"{use.name} takes ({', '.join(found)}) in place of ({wanted}, ...)"
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in found.values())
    for name in use.keywords:
        if name not in found and not takes_any:
            return f"{use.name} takes no {name}"
    return None


def _find_needed(use: Use, target: object) -> str | None:
    """Return why it cannot be called without arguments; None if it can."""
    found = _read_parameters(target)
    if found is None:
        # Some functions in C have no signature.
        return None if callable(target) else f"{use.name} cannot be called"
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [
        name
        for name, parameter in found.items()
        if name != "self"
        and parameter.default is parameter.empty
        and parameter.kind not in optional
    ]
    return f"{use.name} needs {', '.join(needed)}" if needed else None


def _read_parameters(target: object) -> Mapping[str, inspect.Parameter] | None:
    try:
        return inspect.signature(target).parameters  # type: ignore[arg-type]  # checked below
    except (TypeError, ValueError):
        return None


def _find_missing_text(use: Use, target: object) -> str | None:
    source = _source(target) if use.contains else ""
    for text in use.contains:
        if text not in source:
            return f"the source of {use.name} has no {text!r}"
    return None


def _source(target: object) -> str:
    try:
        return inspect.getsource(target)  # type: ignore[arg-type]  # checked below
    except (OSError, TypeError):
        return ""
