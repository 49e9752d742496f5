"""Seams: the places where Backedge relies on what another project has not promised.

A seam is a replaced function, a subclass of an internal class, a read of a private name, a pattern
over a source text, or the text of an error. Each is one row of its project's `seams.py`. All rows
of a role are checked when the process starts, so that an untried version stops it with one sentence
and does not fail in the middle of a request.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from .errors import SetupError
from .log import get_logger

logger = get_logger(__name__)

Role = Literal["flags", "worker", "frontend", "parsers", "detokenizer", "offline", "replay"]
"""When a row is checked: before our flags are added to an engine's, when a worker, a frontend or
the replay worker starts, or when native parsers, native detokenizers or an offline back end load.
"""
Kind = Literal["replaced", "subclassed", "called", "read", "text"]
"""How a seam is used: its function is replaced, its class subclassed, it is called although it is
private, its value is read or set, or its text is searched."""
Build = Callable[[Any], Callable[..., object]]
"""Returns the replacement of a function."""

DYNAMO = "ai-dynamo"
_SECTION = re.compile(r"^== (\w+) (.*)\n((?:(?!==).*\n)*)", re.MULTILINE)
_BLOCK = re.compile(r"((?:\S.*\n)+)((?: .*\n)+)")
_FIELD = re.compile(r"^    (\w+): (.*)$", re.MULTILINE)
_NAMES = re.compile(r"^(\w+) (.*)$", re.MULTILINE)
_NAME = re.compile(r"([\w.:]+)(?:\(([^)*]*)([^)]*)\))?((?: `[^`]*`)*)")
_TEXT = re.compile(r"`([^`]*)`")
_WORD = re.compile(r"\w+")


class Seam(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a project's table.

    name: "module:path", of a function, a class, a value or a field; without a path, the module.
    kind: how it is used.
    role: when it is checked.
    since: the first version that has it, as far as it was tried.
    why: why there is no public way.
    without: what does not work without it.
    used_in: our functions and classes that use the rows of this reason, as
        "engines/vllm/worker.py:VllmWorker.run". Only there, and in seams.py, may private names of
        the project be touched.
    parameters: the first parameters of the function or class; empty if they do not matter, or if
        it is called without arguments.
    keywords: parameters that are passed or read by name.
    contains: texts in its source.
    feature: the only feature to switch off if the row does not hold; empty if the process must not
        start.
    """

    name: str
    kind: Kind
    role: Role
    since: str
    why: str
    without: str
    used_in: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
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
    def is_called_bare(self) -> bool:
        """Whether it is called without arguments."""
        return self.kind == "called" and not (self.parameters or self.keywords or self.contains)

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


def read_table(folder: str, table: str) -> tuple[Seam, ...]:
    """Return the rows of a table, in which names that share a reason are one block.

        == worker 1.6
        replaced module:load(path, *, strict) module:Model.run(self)
        text module:Model.run `self.step(` `self.stop(`
            of: package.
            why: there is no hook
            without: nothing works
            used_in: worker.py:Worker.install
            feature: what is off if a row does not hold

    A heading has role and since. A line of names begins with their kind; a name may have first
    parameters, keywords after a star, and texts in backquotes. "of" precedes each name. Eight
    spaces continue a line.
    folder: has the files of `used_in` that are given without a folder.
    """
    return tuple(
        row
        for role, since, section in _SECTION.findall(table.replace("\n        ", " "))
        for lines, reason in _BLOCK.findall(section)
        for kind, names in _NAMES.findall(lines)
        for row in _read_rows(
            names,
            {**dict(_FIELD.findall(reason)), "kind": kind, "role": role, "since": since},
            folder,
        )
    )


def _read_rows(names: str, shared: dict[str, str], folder: str) -> Iterator[Seam]:
    of = shared.pop("of", "")
    places = [place if "/" in place else folder + place for place in shared.pop("used_in").split()]
    for path, parameters, keywords, texts in _NAME.findall(names):
        taken = {
            "parameters": _WORD.findall(parameters),
            "keywords": _WORD.findall(keywords),
            "contains": _TEXT.findall(texts),
        }
        yield msgspec.convert({**shared, **taken, "name": of + path, "used_in": places}, Seam)


def find_fault(seam: Seam) -> str | None:
    """Return what is wrong with a seam in the installed versions; None if it holds.

    Imports its module, but starts nothing.
    """
    try:
        module = importlib.import_module(seam.module)
        target, missing = _resolve(module, seam.path)
    except Exception as error:  # noqa: BLE001 - an import may raise anything
        return f"{seam.module} cannot be imported ({type(error).__name__}: {error})"
    if missing:
        return f"{seam.module} has no {missing}"
    return _find_wrong_parameters(seam, target) or _find_missing_text(seam, target)


def check_seams(seams: Iterable[Seam], packages: Iterable[str]) -> frozenset[str]:
    """Return the features that are switched off, after one warning for each.

    packages: the distributions whose versions a message names.
    Raises `SetupError` for the first row that does not hold and switches off no feature, and
        without Dynamo.
    """
    check_dynamo_installed(packages)
    off: set[str] = set()
    for seam in seams:
        fault = None if seam.feature in off else find_fault(seam)
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


def rows_of(seams: Iterable[Seam], *roles: Role) -> list[Seam]:
    """Return the rows of these roles."""
    return [seam for seam in seams if seam.role in roles]


def describe_fault(seam: Seam, fault: str, packages: Iterable[str]) -> str:
    """Return a fault in words, with what it costs and the installed versions."""
    versions = ", ".join(f"{package} {read_version(package)}" for package in packages)
    return f"{fault}, without which {seam.without} (found {versions})"


def replace(seam: Seam, build: Build) -> None:
    """Replace the function of a seam by what `build` returns for it."""
    *parents, name = seam.path.split(".")
    owner = functools.reduce(getattr, parents, importlib.import_module(seam.module))
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


def _find_wrong_parameters(seam: Seam, target: object) -> str | None:
    if not (seam.parameters or seam.keywords or seam.is_called_bare):
        return None
    if seam.is_called_bare:
        return _find_needed(seam, target)
    found = _read_parameters(target)
    if found is None:
        return f"{seam.name} cannot be called"
    if tuple(found)[: len(seam.parameters)] != seam.parameters:
        wanted = ", ".join(seam.parameters)
        return f"{seam.name} takes ({', '.join(found)}) in place of ({wanted}, ...)"
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in found.values())
    for name in seam.keywords:
        if name not in found and not takes_any:
            return f"{seam.name} takes no {name}"
    return None


def _find_needed(seam: Seam, target: object) -> str | None:
    """Return why it cannot be called without arguments; None if it can."""
    found = _read_parameters(target)
    if found is None:
        # Some functions in C have no signature.
        return None if callable(target) else f"{seam.name} cannot be called"
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [
        name
        for name, parameter in found.items()
        if name != "self"
        and parameter.default is parameter.empty
        and parameter.kind not in optional
    ]
    return f"{seam.name} needs {', '.join(needed)}" if needed else None


def _read_parameters(target: object) -> Mapping[str, inspect.Parameter] | None:
    try:
        return inspect.signature(target).parameters  # type: ignore[arg-type]  # checked below
    except (TypeError, ValueError):
        return None


def _find_missing_text(seam: Seam, target: object) -> str | None:
    source = _source(target) if seam.contains else ""
    for text in seam.contains:
        if text not in source:
            return f"the source of {seam.name} has no {text!r}"
    return None


def _source(target: object) -> str:
    try:
        return inspect.getsource(target)  # type: ignore[arg-type]  # checked below
    except (OSError, TypeError):
        return ""
